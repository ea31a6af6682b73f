// The composer: a form for each push type, or JSON by hand, and the service's response.

import { button, field, fill, h, select } from '/assets/dom.js'
import { on } from '/assets/events.js'
import { imageLinks } from '/assets/images.js'
import { formatted, problem as problemOf } from '/assets/json.js'
import { besidesList, lockScreen } from '/assets/phone.js'
import { PUSH_TYPES, preview } from '/assets/pushtypes.js'
import { count, literal } from '/assets/text.js'

const LIMITS = { voip: 5120 }
const LIMIT = 4096
const BROADCAST_LIMIT = 5120
const BY_TOKEN = '\u0000token'
const BY_CHANNEL = '\u0000channel'

export class Compose {
  // An example to start with.
  #values = { title: 'Hello', body: 'This is what a push looks like.' }
  #raw = null
  #edited = false

  /** `sender` sends the push and describes the response; see senders.js. */
  constructor(sender) {
    this.sender = sender
    this.device = select([], '', { onchange: () => this.#target() })
    this.deviceField = field('To', this.device)
    this.token = h('input', { class: 'token', spellcheck: 'false', autocomplete: 'off' })
    this.tokenField = field('Device token', this.token,
      'The device token as issued to the app: an even number of hexadecimal digits.')
    this.channels = []
    this.channel = select([], '')
    this.channelField = field('Channel', this.channel)
    this.environment = select(['production', 'development'], 'production')
    this.environmentField = field('Environment', this.environment)
    this.topic = h('input',
      { spellcheck: 'false', autocomplete: 'off', list: 'topics', oninput: () => { this.#edited = true } })
    this.topics = h('datalist', { id: 'topics' })
    this.topicField = field('Topic', this.topic)
    this.type = select(Object.keys(PUSH_TYPES), 'alert', { onchange: () => this.#typed() })
    this.priority = select(['10', '5', '1'], '10')
    this.expiration = h('input', { type: 'number', min: '0', placeholder: 'one attempt' })
    this.collapse = h('input', { autocomplete: 'off' })
    this.collapseField = field('Collapse id', this.collapse)
    this.form = h('div', { class: 'fields' })
    this.text = h('textarea',
      { class: 'code', rows: '16', spellcheck: 'false', id: 'payload-text', 'aria-label': 'Payload as JSON',
      oninput: () => this.#draw() })
    this.made = h('pre', { class: 'payload made', tabindex: '0', 'aria-label': 'The payload to send' })
    this.size = h('span', { class: 'muted', role: 'status' })
    this.fault = h('p', { class: 'callout bad', hidden: true, role: 'alert' })
    this.look = h('div', {})
    this.answer = h('div', { role: 'status', 'aria-live': 'polite' })
    this.modes = h('div', { class: 'segments', role: 'group', 'aria-label': 'Payload editor' },
      button('Form', () => this.#mode(false), { 'aria-pressed': 'true' }),
      button('JSON', () => this.#mode(true), { 'aria-pressed': 'false' }))
    this.sendButton = h('button', { class: 'primary', type: 'submit' }, 'Send')
    this.element = this.#build()
    this.#typed()
    on('device', () => { if (this.element.isConnected) this.#devices() })
  }

  #build() {
    return h('form', { class: 'view compose', 'aria-label': this.sender.title, novalidate: true,
      onsubmit: (event) => { event.preventDefault(); this.#send() },
      onkeydown: (event) => { if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) this.#send() } },
    h('div', { class: 'column' },
      h('h1', {}, this.sender.title), this.sender.note && h('p', { class: 'muted' }, this.sender.note),
      h('div', { class: 'fields' },
        this.deviceField, this.tokenField, this.channelField, field('Push type', this.type),
        this.topicField, this.topics, this.environmentField, field('Priority', this.priority),
        field('Expiration, s from now', this.expiration), this.collapseField),
      h('div', { class: 'tools' }, h('h2', {}, 'Payload'), this.modes, this.size),
      this.form, this.text, this.fault,
      h('div', { class: 'actions' }, this.sendButton,
        h('span', { class: 'muted' }, h('kbd', {}, 'Ctrl'), ' ', h('kbd', {}, 'Enter'))),
      this.answer),
    h('aside', { class: 'beside' }, h('h3', {}, 'Preview on a phone'), this.look, this.made))
  }

  async show() {
    await Promise.all([this.#channels().then(() => this.#devices()), this.#topics()])
  }

  async #channels() {
    this.channels = await this.sender.channels().catch(() => [])
    const chosen = this.channel.value
    fill(this.channel, this.channels.map(({ channel, topic, environment }) => h('option',
      { value: channel, selected: channel === chosen }, `${channel}, ${topic}, ${environment}`)))
  }

  async #topics() {
    try {
      const { topics, offsetMilliseconds } = await this.sender.topics()
      this.offset = offsetMilliseconds
      fill(this.topics, topics.map((topic) => h('option', { value: topic })))
      this.base ??= topics[0]
      if (!this.#edited) this.#suggestTopic()
    } catch { /* The topic is typed then. */ }
  }

  async #devices() {
    const devices = await this.sender.devices().catch(() => [])
    const now = this.device.value
    fill(this.device, devices.map(({ id, name }) => h('option', { value: id }, name && name !== id
      ? `${name} (${id})` : id)),
      h('option', { value: BY_TOKEN }, 'a token…'),
      this.channels.length > 0 && h('option', { value: BY_CHANNEL }, 'a channel…'))
    if ([...this.device.options].some((option) => option.value === now)) this.device.value = now
    this.deviceField.hidden = devices.length === 0
    if (this.wanted) {
      this.device.value = this.wanted
      if (this.wanted === BY_CHANNEL) this.channel.value = this.wantedChannel
      this.wanted = null
    }
    this.#target()
  }

  get #isBroadcast() { return this.device.value === BY_CHANNEL }

  /** A channel says the app and the environment, and has broadcasts to Live Activities only. */
  #target() {
    this.tokenField.hidden = this.device.value !== BY_TOKEN
    this.channelField.hidden = !this.#isBroadcast
    for (const one of [this.topicField, this.environmentField, this.collapseField]) one.hidden = this.#isBroadcast
    if (this.#isBroadcast && this.type.value !== 'liveactivity') {
      this.type.value = 'liveactivity'
      this.#typed()
    } else {
      this.#draw()
    }
  }

  #suggestTopic() { this.topic.value = (this.base ?? '') + PUSH_TYPES[this.type.value].suffix }

  #typed() {
    const type = PUSH_TYPES[this.type.value]
    this.priority.value = type.priority
    if (!this.#edited) this.#suggestTopic()
    fill(this.form, type.fields.map((one) => this.#control(one)))
    this.#draw()
  }

  #control({ key, label, kind = 'text', options, placeholder }) {
    const props = {
      value: this.#values[key] ?? '', placeholder, name: key, autocomplete: 'off',
      oninput: ({ target }) => {
        this.#values[key] = target.type === 'checkbox' ? target.checked : target.value
        this.#draw()
      },
    }
    if (kind === 'check') {
      return h('label', { class: 'check' },
        h('input', { ...props, type: 'checkbox', checked: Boolean(this.#values[key]) }), label)
    }
    const control = kind === 'area' ? h('textarea', { ...props, rows: '2', dir: 'auto' })
      : kind === 'json' ? h('textarea', { ...props, rows: '3', class: 'code', spellcheck: 'false' })
        : kind === 'choice' ? select(options, this.#values[key] ?? '',
          { ...props, value: undefined, onchange: props.oninput })
          : h('input', { ...props, type: kind, step: 'any', dir: kind === 'text' ? 'auto' : null })
    const made = field(label, control)
    if (kind === 'area' || kind === 'json') made.classList.add('broad')
    return made
  }

  #mode(raw) {
    if (raw === (this.#raw != null)) return
    this.#raw = raw ? this.text.value : null
    const [form, json] = this.modes.children
    form.setAttribute('aria-pressed', !raw)
    json.setAttribute('aria-pressed', raw)
    this.#draw()
    if (raw) this.text.focus()
  }

  /** The service's clock. */
  #seconds() { return Math.floor((Date.now() + (this.offset ?? 0)) / 1000) }

  /** The payload's text: written by hand, or made by the form. */
  #payload() {
    if (this.#raw != null) return this.text.value
    return JSON.stringify(PUSH_TYPES[this.type.value].payload(this.#values, this.#seconds()), null, 2)
  }

  #draw() {
    const raw = this.#raw != null
    this.form.hidden = raw
    this.text.hidden = !raw
    this.made.hidden = raw
    let fault = null
    let text = ''
    try {
      text = this.#payload()
      fault = problemOf(text)
      if (!raw) { this.text.value = text; fill(this.made, formatted(text)) }
    } catch (error) { fault = error.message }
    this.fault.hidden = !fault
    fill(this.fault, fault ?? '', fault && raw && ' You can send it anyway.')
    this.text.setAttribute('aria-invalid', Boolean(fault))
    // Spaces in the form's text are only for display and are not sent; text written by hand is sent unchanged.
    const sent = raw || fault ? text : JSON.stringify(JSON.parse(text))
    const size = new TextEncoder().encode(sent).length
    const limit = this.#isBroadcast ? BROADCAST_LIMIT : LIMITS[this.type.value] ?? LIMIT
    this.size.textContent = `${count(size)} of ${count(limit)} bytes`
    this.size.classList.toggle('over', size > limit)
    if (!fault) this.#preview(text)
    return fault && !raw ? null : sent
  }

  #preview(text) {
    const payload = JSON.parse(text)
    const shown = preview(payload, this.type.value)
    fill(this.look, shown.silent
      ? h('p', { class: 'muted' }, 'Nothing is shown.')
      : [lockScreen([{ shown, topic: this.topic.value }], { label: 'Preview on a phone' }), besidesList(shown)],
    imageLinks(payload))
  }

  async #send() {
    const text = this.#draw()
    if (text == null) { this.fault.scrollIntoView({ block: 'nearest' }); return }
    const body = {
      ...this.#recipient(), pushType: this.type.value, priority: Number(this.priority.value), payload: text,
    }
    // A broadcast must say it.
    const seconds = this.expiration.value || (this.#isBroadcast ? '0' : '')
    if (seconds !== '') body.expiration = Number(seconds) && this.#seconds() + Number(seconds)
    if (this.collapse.value && !this.#isBroadcast) body.collapseID = this.collapse.value
    this.sendButton.disabled = true
    try {
      const { later, ...answer } = await this.sender.send(body)
      this.#answered(answer)
      if (later) this.#answered({ ...answer, ...await later() })
    } catch (problem) {
      fill(this.answer, h('p', { class: 'callout bad' }, problem.message))
    } finally {
      this.sendButton.disabled = false
    }
  }

  #recipient() {
    if (this.#isBroadcast) return this.channels.find(({ channel }) => channel === this.channel.value)
    const target = this.device.value === BY_TOKEN ? { token: this.token.value.trim() } : { device: this.device.value }
    return { ...target, topic: this.topic.value.trim(), environment: this.environment.value }
  }

  #answered({ good, words, href, link, explanation, violations = [], fault, ids = [] }) {
    const style = !good ? 'bad' : violations.length ? 'warn' : 'good'
    fill(this.answer, h('div', { class: `callout ${style}` },
      h('p', {}, h('strong', {}, words), ' ', href && h('a', { href }, link)),
      explanation && h('p', {}, literal(explanation)),
      violations.map(({ message }) => h('p', {}, literal(message))),
      fault && h('p', { class: 'muted' }, 'Caused by the fault ', literal(fault)),
      ids.filter(([, id]) => id).map(([name, id]) => h('p', { class: 'muted' }, name, ' ', h('code', {}, id)))))
  }

  /** Loads a push that was sent, to send it again or changed. */
  load(push) {
    this.#raw = push.payloadText ?? '{}'
    this.#edited = true
    this.type.value = Object.hasOwn(PUSH_TYPES, push.pushType ?? '') ? push.pushType : 'alert'
    this.#typed()
    this.text.value = this.#raw
    const [form, json] = this.modes.children
    form.setAttribute('aria-pressed', 'false')
    json.setAttribute('aria-pressed', 'true')
    this.topic.value = push.topic ?? ''
    if (push.priority) this.priority.value = String(push.priority)
    this.collapse.value = push.collapseID ?? ''
    this.token.value = push.token ?? ''
    if (push.environment) this.environment.value = push.environment
    // The token rather than the device, so that the push goes to the same token again.
    this.wanted = push.channel == null ? BY_TOKEN : BY_CHANNEL
    this.wantedChannel = push.channel
    fill(this.answer)
    this.#draw()
  }
}
