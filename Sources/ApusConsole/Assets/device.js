// One device of the service: its name and tags, a push to it, what it has, and what happens to its notifications.

import { get, patch, post, query, segment } from '/assets/api.js'
import { button, facts, field, fill, h, select, toast } from '/assets/dom.js'
import { link, stateCells } from '/assets/ledger.js'
import { table, when } from '/assets/pane.js'
import { count, literal, plain } from '/assets/text.js'

const FOLLOW_MILLISECONDS = 2000
const LINES = 50
const TOPIC_COLUMNS = ['Topic', 'List', 'Since', 'Generation']
const POWERS = { active: 'in use', idle: 'idle', low_power: 'low power' }
const OUTCOMES = {
  accepted: 'Accepted', no_app: 'The device has no app with this topic.', inactive: 'The device is retired.',
  too_many: 'The device gets more than its rate.', refused: 'The app is gone.', cancelled: 'Cancelled.',
}

export const stateOf = (device) => h('span', {
  class: `badge ${device.retired ? 'bad' : device.connected ? 'good' : ''}`,
}, device.retired ? 'retired' : device.connected ? 'connected' : 'offline')

/** What a device is called, with its id. */
export const nameOf = (device) => (device.name
  ? [plain(device.name), ' ', h('code', { class: 'muted' }, device.device)] : h('code', {}, device.device))

export const tagsOf = (device) => (device.tags ?? []).map((tag) => [
  h('a', { class: 'badge', href: `#/devices/tag/${segment(tag)}` }, plain(tag)), ' '])

export class DevicePage {
  constructor(pane) {
    this.pane = pane
    this.head = h('div', { class: 'tools' })
    this.facts = h('div', {})
    this.halves = h('div', { class: 'halves' })
    this.lines = h('div', {})
    this.element = h('div', { class: 'column' },
      h('p', {}, h('a', { href: '#/devices' }, '‹ All devices')), this.head, this.facts,
      this.#labels(), this.#push(), this.halves, this.lines)
  }

  // MARK: Redrawn as it changes: changes to a device take effect a moment later.

  async show(id) {
    if (this.id !== id) {
      Object.assign(this, { id, drawn: '', isTouched: false })
      for (const part of [this.head, this.facts, this.halves, this.lines, this.answer]) fill(part)
    }
    const [device, { lines }, { entries }] = await Promise.all([get(`/devices/${segment(id)}`),
      post('/ledger/query', { device: id, limit: LINES }), get(`/refusals${query({ device: id, limit: LINES })}`)])
    if (this.pane.parts?.[0] !== id) return
    this.#follow()
    const drawn = JSON.stringify([device, lines, entries])
    if (drawn === this.drawn) return
    this.drawn = drawn
    const refused = entries.map((entry) => ({ ...entry, milliseconds: Date.parse(entry.time), state: 'Refused',
      cause: [entry.reason ?? entry.event, entry.explanation].filter(Boolean).join(': ') }))
    this.#draw(device, [...lines, ...refused].sort((one, other) => one.milliseconds - other.milliseconds))
  }

  hide() {
    clearTimeout(this.timer)
    this.id = null
  }

  #follow() {
    clearTimeout(this.timer)
    this.timer = setTimeout(() => { document.hidden ? this.#follow() : this.pane.load() }, FOLLOW_MILLISECONDS)
  }

  #draw(device, lines) {
    const hadFocus = this.head.contains(document.activeElement)
    fill(this.head, h('h2', { id: 'device-title' }, nameOf(device)), stateOf(device), tagsOf(device),
      !device.retired && button('Retire', () => this.#retire(device),
        { class: 'danger', data: { needs: 'operate' } }))
    fill(this.facts, facts([['Stored', count(device.stored_notifications)], ['Last seen', when(device.last_seen)],
      ['Retired', when(device.retired)]]))
    fill(this.halves, (device.environments ?? []).map((one) => this.#environment(one)))
    fill(this.lines, this.#timeline(lines))
    this.#offer(device)
    if (!this.isTouched) {
      this.name.value = device.name ?? ''
      this.tags.value = (device.tags ?? []).join(' ')
      this.known = device
    }
    if (hadFocus) this.head.querySelector('.danger, a')?.focus()
  }

  #environment(one) {
    return h('section', { class: 'box' },
      h('div', { class: 'tools' }, h('h3', {}, one.environment), stateOf(one)),
      facts([
        ['Address', one.address && literal(one.address)], ['Power', POWERS[one.power] ?? one.power],
        ['In flight', one.in_flight ?? null], ['Waiting in memory', one.waiting ?? null],
        ['Stored', count(one.stored_notifications)], ['Last seen', when(one.last_seen)],
        ['Last authenticated by key', one.key_sha256 && h('code', {}, one.key_sha256)],
      ]),
      table(`Topics in ${one.environment}`, TOPIC_COLUMNS, (one.topics ?? []).map((topic) => [
        plain(topic.topic), topic.list?.replace('_', ' '), when(topic.since), topic.generation ?? '–',
      ]), { empty: 'The device has reported no topics.' }))
  }

  #timeline(lines) {
    return h('section', { class: 'box' },
      h('div', { class: 'tools' }, h('h3', {}, 'Notifications'),
        h('a', { href: `#/ledger/${segment(this.id)}` }, 'Search them')),
      table('Notifications of the device', ['Time', 'State', 'Topic', 'Type', 'apns-id'],
        lines.toReversed().map((line) => [
          ...stateCells(line), line.topic && plain(line.topic), line.push_type, line.id && link(line.id),
        ]), { empty: 'The ledger has nothing about this device.', className: 'log' }))
  }

  // MARK: Name and tags

  #labels() {
    const touched = () => { this.isTouched = true }
    this.name = h('input', { autocomplete: 'off', maxlength: '64', oninput: touched })
    this.tags = h('input', { autocomplete: 'off', spellcheck: 'false', placeholder: 'floor=2 room=north',
      oninput: touched })
    return h('form', { class: 'inline', data: { needs: 'operate' },
      onsubmit: (event) => { event.preventDefault(); this.#label() } },
    field('Name', this.name), field('Tags, separated by spaces', this.tags), h('button', { type: 'submit' }, 'Save'))
  }

  async #label() {
    const wanted = this.tags.value.split(/\s+/).filter(Boolean)
    const key = (tag) => tag.split('=')[0]
    const removed = (this.known.tags ?? []).map(key).filter((one) => !wanted.some((tag) => key(tag) === one))
    const done = await this.pane.attempt(() => patch(`/devices/${segment(this.id)}`, {
      name: this.name.value.trim() || null, add_tags: wanted, remove_tags: removed }))
    if (!done) return
    this.isTouched = false
    toast('Saved.')
    this.pane.load()
  }

  // MARK: A push to the device

  #push() {
    this.title = h('input', { autocomplete: 'off', value: 'Hello' })
    this.text = h('input', { autocomplete: 'off', value: 'This is a test.' })
    this.topic = select([], '')
    this.topicField = field('App', this.topic)
    this.answer = h('div', { id: 'device-answer', class: 'answer', role: 'status', 'aria-live': 'polite' })
    this.sending = h('form', { class: 'inline', 'aria-label': 'Send to this device', data: { needs: 'send' },
      onsubmit: (event) => { event.preventDefault(); this.#send() } },
    field('Title', this.title), field('Text', this.text), this.topicField,
    h('button', { type: 'submit' }, 'Send to this device'))
    return h('div', { class: 'column' }, this.sending, this.answer)
  }

  /** The apps of the device, each with its environment. */
  #offer(device) {
    const apps = (device.environments ?? []).flatMap(({ environment, topics }) => (topics ?? [])
      .filter(({ list }) => list !== 'unlisted').map(({ topic }) => `${topic} ${environment}`))
    this.sending.hidden = Boolean(device.retired) || apps.length === 0
    if (apps.join() === this.offered) return
    this.offered = apps.join()
    const chosen = this.topic.value
    fill(this.topic, apps.map((app) => h('option', { value: app, selected: app === chosen }, app.replace(' ', ', '))))
  }

  async #send() {
    const [topic, environment] = this.topic.value.split(' ')
    const { id } = this
    await this.pane.attempt(async () => {
      let job = await post('/notifications', { device: id, topic, environment,
        payload: { aps: { alert: { title: this.title.value, body: this.text.value } } } })
      for (let look = 0; !job.ended && look < 50; look += 1) {
        await new Promise((done) => { setTimeout(done, 100) })
        job = await get(`/jobs/${segment(job.job)}`)
      }
      if (this.id !== id) return
      const [outcome] = Object.entries(job.outcomes).find(([, number]) => number > 0) ?? ['']
      fill(this.answer, h('p', { class: `callout ${outcome === 'accepted' ? 'good' : outcome && 'bad'}` },
        OUTCOMES[outcome] ?? 'The service has not decided yet: it takes no notifications now.'))
      this.pane.load()
    })
  }

  async #retire({ device, name }) {
    const words = `Retire ${name ? `${name} (${device})` : device} permanently? `
    if (!confirm(`${words}It can no longer connect, and its tokens become invalid.`)) return
    if (await this.pane.attempt(() => post(`/devices/${segment(device)}/retire`))) {
      toast(`Retired ${name ?? device}.`)
      this.pane.load()
    }
  }
}
