// The localized texts of apps, which devices show for the keys in a payload (loc-key).

import { get, getText, putText, segment } from '/assets/api.js'
import { button, field, fill, h, toast } from '/assets/dom.js'
import { count, plain } from '/assets/text.js'

export class Texts {
  constructor() {
    this.list = h('ul', { class: 'token-list' })
    this.topic = h('input', { autocomplete: 'off', spellcheck: 'false', required: true, list: 'texts-topics' })
    this.topics = h('datalist', { id: 'texts-topics' })
    this.language = h('input', { autocomplete: 'off', placeholder: 'de', required: true, maxlength: '35' })
    this.text = h('textarea', { class: 'code', rows: '6', spellcheck: 'false', dir: 'auto',
      placeholder: '"GREETING" = "Hello, %@!";' })
    this.file = h('input', { type: 'file', accept: '.strings,text/plain', onchange: () => this.#read() })
    this.fault = h('p', { class: 'callout bad', hidden: true, role: 'alert' })
    this.form = h('form', { class: 'column', onsubmit: (event) => { event.preventDefault(); this.#set() } },
      h('div', { class: 'fields' }, field('App', this.topic), this.topics, field('Language', this.language),
        field('From a file', this.file)),
      field('Localizable.strings', this.text), this.fault,
      h('div', {}, h('button', { type: 'submit' }, 'Set')))
    this.element = h('details', { class: 'box' }, h('summary', {}, 'Texts of apps (Localizable.strings)'),
      h('div', { class: 'column' }, this.list, this.form))
  }

  async load() {
    try {
      const [{ strings }, { topics }] = await Promise.all([get('/strings'), get('/status')])
      fill(this.topics, topics.map((topic) => h('option', { value: topic })))
      if (!this.topic.value) this.topic.value = topics[0] ?? ''
      fill(this.list, strings.length === 0 ? h('li', { class: 'muted' }, 'No texts.')
        : strings.map((one) => h('li', {}, plain(one.topic), ' ', h('strong', {}, one.language),
          h('span', { class: 'muted' }, `${count(one.count)} ${one.count === 1 ? 'text' : 'texts'}`),
          button('Edit', () => this.#open(one), { class: 'small',
            'aria-label': `Edit the texts of ${one.topic} in ${one.language}` }))))
    } catch (problem) { this.#say(problem.message) }
  }

  #place(topic, language) { return `/strings/${segment(topic)}/${segment(language)}` }

  async #open({ topic, language }) {
    try {
      this.text.value = await getText(this.#place(topic, language))
      this.topic.value = topic
      this.language.value = language
      this.#say(null)
      this.text.focus()
    } catch (problem) { this.#say(problem.message) }
  }

  async #read() {
    const [file] = this.file.files
    if (!file) return
    const bytes = new Uint8Array(await file.arrayBuffer())
    // Older files from Xcode are UTF-16 with a byte order mark.
    const name = bytes[0] === 0xff && bytes[1] === 0xfe ? 'utf-16le'
      : bytes[0] === 0xfe && bytes[1] === 0xff ? 'utf-16be' : 'utf-8'
    this.text.value = new TextDecoder(name).decode(bytes)
  }

  async #set() {
    try {
      const language = this.language.value.trim()
      await putText(this.#place(this.topic.value.trim(), language), this.text.value)
      this.#say(null)
      toast(`Set the texts in ${language}.`)
      this.load()
    } catch (problem) { this.#say(problem.message) }
  }

  #say(text) {
    fill(this.fault, text ?? '')
    this.fault.hidden = !text
  }
}
