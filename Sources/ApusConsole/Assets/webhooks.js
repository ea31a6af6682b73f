// The webhooks: where events are sent, and how that goes.

import { get, post, remove, segment } from '/assets/api.js'
import { button, copyButton, field, fill, h, toast } from '/assets/dom.js'
import { Pane, table } from '/assets/pane.js'
import { count, literal, plain } from '/assets/text.js'

const EVENTS = ['notification.finished', 'token.died', 'device.first-seen', 'device.connected', 'device.retired',
  'certificate.expiring', 'trust.stale',
  'upstream.failing']

export class Webhooks extends Pane {
  constructor() {
    super('Webhooks', 'The service POSTs events to these URLs, signed and in order, until the receiver accepts them.')
    this.list = h('div', {})
    this.name = h('input', { autocomplete: 'off', spellcheck: 'false', placeholder: 'default', maxlength: '64' })
    this.url = h('input', { type: 'url', autocomplete: 'off', spellcheck: 'false', required: true })
    this.events = EVENTS.map((name) => h('input', { type: 'checkbox', value: name }))
    this.made = h('div', { class: 'answer', role: 'status' })
    this.add(this.list, h('form', { class: 'box', data: { needs: 'trust' },
      onsubmit: (event) => { event.preventDefault(); this.#add() } },
      h('h2', {}, 'Add a webhook'),
      h('div', { class: 'fields' }, field('URL', this.url, 'With https.'), field('Name', this.name)),
      h('fieldset', { class: 'choices' }, h('legend', {}, 'Events (all, if none is chosen)'),
        this.events.map((box) => h('label', {}, box, ' ', box.value))),
      h('div', {}, h('button', { type: 'submit', class: 'primary' }, 'Add')), this.made))
  }

  async update() {
    const { webhooks } = await get('/webhooks')
    const act = (name, word, task, style = '') => button(word, task,
      { class: `small quiet ${style}`, data: { needs: 'trust' }, 'aria-label': `${word} ${name}` })
    fill(this.list, table('Webhooks', ['Name', 'URL', 'Events', 'Delivered', 'Waiting', 'State', ''],
      webhooks.map((hook) => [
        plain(hook.name), literal(hook.url),
        hook.events.length === EVENTS.length ? 'all' : hook.events.join(', '),
        count(hook.delivered), count(hook.waiting),
        [hook.error
          ? h('span', { class: 'badge bad', title: hook.error }, `failed ${count(hook.failures)} ×`)
          : h('span', { class: 'badge good' }, 'good'),
        hook.rotating && [' ', h('span', { class: 'badge warn' }, 'rotating')],
        hook.error && h('p', { class: 'muted' }, literal(hook.error))],
        [act(hook.name, 'Test', () => this.#test(hook.name)),
          hook.rotating
            ? act(hook.name, 'Finish', () => this.#finish(hook.name))
            : act(hook.name, 'Rotate', () => this.#rotate(hook.name)),
          act(hook.name, 'Remove', () => this.#remove(hook.name), 'danger')],
      ])))
  }

  #path(name, action = '') { return `/webhooks/${segment(name)}${action && `/${action}`}` }

  #showSecret(title, secret) {
    fill(this.made, h('div', { class: 'callout good' }, h('p', {}, h('strong', {}, title)),
      h('p', {}, 'The secret signs the requests, and is not shown again:'),
      h('pre', { class: 'payload', tabindex: '0', 'aria-label': 'Secret' }, literal(secret)),
      h('p', {}, copyButton(secret, 'the secret'))))
  }

  async #add() {
    const events = this.events.filter((box) => box.checked).map((box) => box.value)
    const body = { url: this.url.value.trim(), name: this.name.value.trim() || undefined, events }
    await this.attempt(async () => {
      const answer = await post('/webhooks', body)
      this.#showSecret(`Added the webhook ${answer.name}.`, answer.secret)
      this.url.value = ''
      this.name.value = ''
      for (const box of this.events) box.checked = false
      await this.update()
    })
  }

  async #test(name) {
    await this.attempt(async () => {
      const { delivered, error } = await post(this.#path(name, 'test'))
      if (!delivered) throw new Error(`The receiver of ${name} did not accept the test event: ${error}`)
      toast(`The receiver of ${name} accepted the test event.`)
    })
  }

  async #rotate(name) {
    if (!confirm(`Make a new secret for ${name}? The old one signs, too, until the rotation is finished.`)) return
    await this.attempt(async () => {
      this.#showSecret(`A new secret for ${name}.`, (await post(this.#path(name, 'rotate'))).secret)
      await this.update()
    })
  }

  async #finish(name) {
    if (!confirm(`Stop signing with the old secret of ${name}?`)) return
    if (await this.attempt(() => post(this.#path(name, 'rotate'), { finish: true }))) this.load()
  }

  async #remove(name) {
    if (!confirm(`Remove the webhook ${name}, and what waits for it?`)) return
    if (await this.attempt(() => remove(this.#path(name)))) { toast(`Removed ${name}.`); this.load() }
  }
}
