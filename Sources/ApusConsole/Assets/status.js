// The development service: its clock, the settings for a provider, and its figures.

import { get, put } from '/assets/api.js'
import { button, copyButton, field, fill, h, toast } from '/assets/dom.js'
import { on } from '/assets/events.js'
import { when } from '/assets/pane.js'
import { bytes, count, duration, literal, zoneName } from '/assets/text.js'

const STEPS = [['1 min', 60_000], ['20 min', 1_200_000], ['1 h', 3_600_000], ['1 day', 86_400_000],
  ['30 days', 2_592_000_000]]

const worded = (key) => key.replace(/ID\b/, ' id').replace(/([a-z])([A-Z])/g, '$1 $2').replace(/^./,
  (first) => first.toUpperCase())
  .replace(/ [A-Z](?=[a-z])/g, (letter) => letter.toLowerCase())

function value(key, one) {
  if (one === true || one === false) return one ? 'yes' : 'no'
  if (/Milliseconds$/.test(key)) return one > 1e11 ? when(one) : duration(one)
  if (/[bB]ytes$/.test(key)) return bytes(one)
  if (typeof one === 'number') return count(one)
  if (Array.isArray(one)) return one.map((item, index) => [index > 0 && h('br', {}), value('', item)])
  if (one && typeof one === 'object') return list(one)
  const text = literal(one)
  return /file$|File$|^\//.test(key) || String(one).startsWith('/') ? [text, ' ', copyButton(one, 'the path')] : text
}

function list(object) {
  const rows = Object.entries(object).filter(([, one]) => one != null && one !== '')
  return h('dl', { class: 'facts' },
    rows.map(([key, one]) => [h('dt', {}, worded(key).replace(/ (milliseconds|bytes)$/, '')),
    h('dd', {}, value(key, one))]))
}

export class Status {
  #offset = 0

  constructor() {
    this.now = h('span', { class: 'service-time' })
    this.skew = h('span', { class: 'muted', role: 'status' })
    this.date = h('input', { type: 'datetime-local', step: '1' })
    this.snippets = h('div', { class: 'snippets' })
    this.facts = h('div', { class: 'halves' })
    this.element = h('section', { class: 'view', 'aria-label': 'Status' },
      h('h1', {}, 'Status'),
      h('section', { class: 'box' }, h('h2', {}, 'Clock'),
        h('p', { class: 'muted' },
          'The clock of the development service decides when tokens and pushes expire.'),
        h('p', {}, this.now, ' ', this.skew),
        h('div', { class: 'actions' },
          STEPS.map(([text, milliseconds]) => button(`+ ${text}`,
          () => this.#set({ advanceMilliseconds: milliseconds }))),
          button('Reset', () => this.#set({ reset: true }))),
        h('form', { class: 'inline', onsubmit: (event) => { event.preventDefault(); this.#setTo() } },
          field(`Set to (${zoneName()})`, this.date), h('button', { type: 'submit' }, 'Set'))),
      h('section', { class: 'box' }, h('h2', {}, 'Settings for your provider'), this.snippets), this.facts)
    on('clock', () => { if (this.element.isConnected) this.#load() })
    this.#loadOffset()
  }

  show() {
    this.#load()
    clearInterval(this.tick)
    this.tick = setInterval(() => this.#drawClock(), 1000)
    clearInterval(this.reload)
    this.reload = setInterval(() => this.#load(true), 5000)
  }

  hide() { clearInterval(this.tick); clearInterval(this.reload) }

  #loadOffset() { this.#drawClock() }

  async #load(figuresOnly = false) {
    try {
      const status = await get('/status')
      if (status.clock) this.#take(status.clock)
      if (!figuresOnly || !this.snippets.hasChildNodes()) this.#drawSnippets(status.snippets)
      const { snippets, clock, ...rest } = status
      const plain = {}
      const groups = []
      for (const [key, one] of Object.entries(rest)) {
        if (one && typeof one === 'object' && !Array.isArray(one)) groups.push([worded(key), list(one)])
        else plain[key] = one
      }
      // The facts are not redrawn while the user may be copying from them.
      const drawn = JSON.stringify(rest)
      if (drawn !== this.drawn && !this.facts.contains(document.activeElement)) {
        this.drawn = drawn
        fill(this.facts, [['This service', list(plain)],
          ...groups].map(([title, body]) => h('section', { class: 'box' }, h('h2', {}, title), body)))
      }
    } catch (problem) {
      if (!figuresOnly) fill(this.facts, h('p', { class: 'callout bad' }, problem.message))
    }
  }

  #drawSnippets(snippets) {
    const entries = Array.isArray(snippets)
      ? snippets.map(({ name, library, title, text, code }) => [name ?? library ?? title,
        text ?? code]) : Object.entries(snippets ?? {})
    if (!entries.length) { fill(this.snippets, h('p', { class: 'muted' }, 'None.')); return }
    const view = h('pre', { class: 'payload', tabindex: '0' })
    const choices = h('div', { class: 'segments wrap', role: 'group', 'aria-label': 'Library' })
    let chosen = ''
    const show = (name) => {
      this.library = name
      chosen = entries.find(([key]) => key === name)?.[1] ?? ''
      fill(view, chosen)
      for (const choice of choices.children) choice.setAttribute('aria-pressed', choice.textContent === name)
    }
    fill(choices, entries.map(([name]) => button(name, () => show(name))))
    show(entries.some(([name]) => name === this.library) ? this.library : entries[0][0])
    fill(this.snippets, h('div', { class: 'tools' }, choices, copyButton(() => chosen, 'the snippet')), view)
  }

  #take({ now, offsetMilliseconds = 0 }) {
    // The difference between the service's clock and this browser's.
    this.#offset = now - Date.now()
    this.shift = offsetMilliseconds
    this.#drawClock()
  }

  #drawClock() {
    const now = Date.now() + this.#offset
    fill(this.now, when(now))
    const shift = this.shift ?? 0
    this.skew.textContent = Math.abs(shift) < 1
      ? 'the machine’s time' : `${duration(shift)} ${shift > 0 ? 'ahead of' : 'behind'} the machine’s time`
  }

  async #set(body) {
    try { this.#take(await put('/clock', body)) } catch (problem) { toast(problem.message) }
  }

  #setTo() {
    const time = new Date(this.date.value).getTime()
    if (Number.isNaN(time)) { this.date.focus(); return }
    this.#set({ set: time })
  }
}
