// The known devices, the details of one, and certificate requests.

import { get, post, query, segment } from '/assets/api.js'
import { button, facts, field, fill, h, toast } from '/assets/dom.js'
import { Enrolments } from '/assets/enrolments.js'
import { Pane, inlineForm, table, when } from '/assets/pane.js'
import { count, literal, plain } from '/assets/text.js'

const PAGE = 25
const FOLLOW_MILLISECONDS = 2000
const TOPIC_COLUMNS = ['Topic', 'List', 'Since', 'Generation']
const POWERS = { active: 'in use', idle: 'idle', low_power: 'low power' }

const stateOf = (device) => h('span', {
  class: `badge ${device.retired ? 'bad' : device.connected ? 'good' : ''}`,
}, device.retired ? 'retired' : device.connected ? 'connected' : 'offline')

const tagsOf = ({ tags }) => tags?.length ? plain(tags.join(', ')) : null

const topicsOf = (device) =>
  [...new Set((device.environments ?? []).flatMap(({ topics }) => topics ?? []).map(({ topic }) => topic))]

export class Fleet extends Pane {
  constructor({ go }) {
    super('Devices')
    this.go = go
    this.search = h('input', { type: 'search', autocomplete: 'off', spellcheck: 'false',
      placeholder: 'kitchen, floor=2 or 8F3A' })
    this.list = h('div', { class: 'column' })
    this.enrolments = new Enrolments(this)
    this.all = h('div', { class: 'column' }, this.enrolments.asking,
      inlineForm(() => this.load(), 'Search', field('Name, tag, topic, or beginning of the id', this.search)),
      this.list, this.enrolments.element)
    this.one = h('div', { class: 'column' })
    this.add(this.all, this.one)
  }

  async update() {
    clearTimeout(this.timer)
    const id = this.parts?.[0]
    this.all.hidden = Boolean(id)
    this.one.hidden = !id
    if (id) return this.#showOne(id)
    const filled = this.#page(null)
    await Promise.all([filled, this.enrolments.update()])
  }

  back() {
    if (!this.parts?.[0]) return false
    this.go('/devices')
    return true
  }

  key(key) {
    if (key !== '/') return false
    if (this.all.hidden) this.go('/devices')
    setTimeout(() => this.search.focus())
    return true
  }

  async #page(after) {
    const { devices, next } = await get(`/devices${query({ limit: PAGE, after, query: this.search.value.trim() })}`)
    if (after == null) fill(this.list)
    if (devices.length || after == null) {
      this.list.append(table(after == null ? 'Devices' : 'More devices',
        ['Device', 'Name', 'Tags', 'State', 'Environments', 'Topics', 'Stored', 'Last seen'], devices.map((device) => [
          h('a', { href: `#/devices/${segment(device.device)}` }, h('code', {}, device.device)),
          device.name && plain(device.name), tagsOf(device), stateOf(device),
          (device.environments ?? []).map(({ environment }) => environment).join(', '),
          plain(topicsOf(device).join(', ')), count(device.stored_notifications), when(device.last_seen),
        ]), { empty: next ? 'No matches on this page.' : 'No devices.' }))
    }
    if (!next) return
    const more = button('More', async () => { more.remove(); await this.attempt(() => this.#page(next)) })
    this.list.append(more)
  }

  /** Redrawn as it changes: changes to a device take effect a moment later. */
  async #showOne(id) {
    if (this.drawnID !== id) { this.drawn = ''; fill(this.one, this.#back()) }
    const device = await get(`/devices/${segment(id)}`)
    if (this.parts?.[0] !== id) return
    this.#follow()
    const drawn = JSON.stringify(device)
    if (drawn === this.drawn) return
    Object.assign(this, { drawn, drawnID: id })
    const hadFocus = this.one.contains(document.activeElement) && document.activeElement.matches('.danger')
    fill(this.one, this.#back(),
      h('div', { class: 'tools' }, h('h2', { id: 'device-title' }, h('code', {}, device.device)), stateOf(device),
        !device.retired && button('Retire', () => this.#retire(id), { class: 'danger', data: { needs: 'operate' } }),
        h('a', { href: `#/ledger/${segment(id)}` }, 'Notifications')),
      facts([['Name', device.name && plain(device.name)], ['Tags', tagsOf(device)],
        ['Stored', count(device.stored_notifications)], ['Last seen', when(device.last_seen)],
        ['Retired', when(device.retired)]]),
      h('div', { class: 'halves' }, (device.environments ?? []).map((one) => this.#environment(one))))
    if (hadFocus) this.one.querySelector('.danger, a')?.focus()
  }

  #follow() {
    this.timer = setTimeout(() => { document.hidden ? this.#follow() : this.load() }, FOLLOW_MILLISECONDS)
  }

  hide() {
    clearTimeout(this.timer)
    this.parts = null
  }

  #back() {
    return h('p', {}, h('a', { href: '#/devices' }, '‹ All devices'))
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

  async #retire(id) {
    if (!confirm(`Retire ${id} permanently? It can no longer connect, and its tokens become invalid.`)) return
    if (await this.attempt(() => post(`/devices/${segment(id)}/retire`))) { toast(`Retired ${id}.`); this.load() }
  }
}
