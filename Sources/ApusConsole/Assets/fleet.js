// The known devices, by name, tag, id or topic, and certificate requests.

import { get, query, segment } from '/assets/api.js'
import { DevicePage, nameOf, stateOf, tagsOf } from '/assets/device.js'
import { button, field, fill, h } from '/assets/dom.js'
import { Enrolments } from '/assets/enrolments.js'
import { Pane, inlineForm, table, when } from '/assets/pane.js'
import { count, plain } from '/assets/text.js'

const PAGE = 25
const COLUMNS = ['Device', 'State', 'Tags', 'Environments', 'Topics', 'Stored', 'Last seen']

const topicsOf = (device) =>
  [...new Set((device.environments ?? []).flatMap(({ topics }) => topics ?? []).map(({ topic }) => topic))]

export class Fleet extends Pane {
  constructor({ go }) {
    super('Devices')
    this.go = go
    this.search = h('input', { type: 'search', autocomplete: 'off', spellcheck: 'false',
      placeholder: 'kitchen, 8F3A or com.example.app' })
    this.tag = h('input', { type: 'search', autocomplete: 'off', spellcheck: 'false', placeholder: 'floor=2',
      list: 'known-tags' })
    this.tags = h('datalist', { id: 'known-tags' })
    this.list = h('div', { class: 'column' })
    this.enrolments = new Enrolments(this)
    this.all = h('div', { class: 'column' }, this.enrolments.asking,
      inlineForm(() => this.#searched(), 'Search', field('Name, beginning of the id, or topic', this.search),
        field('Tag', this.tag), this.tags),
      this.list, this.enrolments.element)
    this.page = new DevicePage(this)
    this.add(this.all, this.page.element)
  }

  async update() {
    const [id, tag] = this.parts ?? []
    const isList = !id || id === 'tag'
    this.all.hidden = !isList
    this.page.element.hidden = isList
    if (!isList) return this.page.show(id)
    this.page.hide()
    if (id === 'tag') this.tag.value = tag ?? ''
    await Promise.all([this.#page(null), this.#known(), this.enrolments.update()])
  }

  back() {
    if (!this.parts?.[0]) return false
    this.tag.value = ''
    this.go('/devices')
    return true
  }

  key(key) {
    if (key !== '/') return false
    if (this.all.hidden) this.go('/devices')
    setTimeout(() => this.search.focus())
    return true
  }

  hide() {
    this.page.hide()
    this.parts = null
  }

  #searched() {
    const tag = this.tag.value.trim()
    const path = tag ? `/devices/tag/${segment(tag)}` : '/devices'
    if (location.hash === `#${path}`) this.load()
    else this.go(path)
  }

  async #known() {
    const { tags } = await get('/tags')
    fill(this.tags, tags.map(({ tag, devices }) => h('option', { value: tag }, `${tag} (${count(devices)})`)))
  }

  async #page(after) {
    const { devices, next } = await get(`/devices${query({
      limit: PAGE, after, query: this.search.value.trim(), tag: this.tag.value.trim() })}`)
    if (after == null) fill(this.list)
    if (devices.length || after == null) {
      this.list.append(table(after == null ? 'Devices' : 'More devices', COLUMNS, devices.map((device) => [
        h('a', { href: `#/devices/${segment(device.device)}` }, nameOf(device)), stateOf(device), tagsOf(device),
        (device.environments ?? []).map(({ environment }) => environment).join(', '),
        plain(topicsOf(device).join(', ')), count(device.stored_notifications), when(device.last_seen),
      ]), { empty: next ? 'No matches on this page.' : 'No devices.' }))
    }
    if (!next) return
    const more = button('More', async () => { more.remove(); await this.attempt(() => this.#page(next)) })
    this.list.append(more)
  }
}
