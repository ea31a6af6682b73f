// The virtual devices: their state, their switches, and what they show.

import { Activities } from '/assets/activities.js'
import { get, patch, post, remove } from '/assets/api.js'
import { button, copyButton, field, fill, h, select, toast } from '/assets/dom.js'
import { on } from '/assets/events.js'
import { when } from '/assets/pane.js'
import { appName, besidesList, lockScreen } from '/assets/phone.js'
import { plain, shortened } from '/assets/text.js'
import { Texts } from '/assets/texts.js'

const POWERS = [['active', 'in use'], ['idle', 'idle'], ['lowPower', 'low power']]

/** A toggle switch. */
function toggle(label, isOn, onchange) {
  const element = button(label, async () => {
    if (element.getAttribute('aria-busy') === 'true') return
    element.setAttribute('aria-busy', 'true') // Not `disabled`, which would lose the focus.
    await onchange(!isOn)
    element.removeAttribute('aria-busy')
  }, { role: 'switch', class: 'switch', 'aria-checked': isOn })
  return element
}

export class Devices {
  constructor({ go }) {
    this.go = go
    this.unfolded = new Set()
    this.list = h('ul', { class: 'cards-list', 'aria-label': 'Devices' })
    this.unfoldedThreads = new Set()
    this.heading = h('h3', {})
    this.phone = h('div', { 'aria-live': 'polite' })
    this.rest = h('div', {})
    this.activities = new Activities({ changed: () => this.#load() })
    this.screen = h('section', { class: 'beside' }, this.heading, this.phone, this.activities.element, this.rest)
    this.id = h('input', { autocomplete: 'off', placeholder: 'phone-2', maxlength: '32', spellcheck: 'false' })
    this.language = h('input', { autocomplete: 'off', placeholder: 'en', size: '6' })
    this.texts = new Texts()
    this.fault = h('p', { class: 'callout bad', hidden: true, role: 'alert' })
    this.element = h('section', { class: 'view with-beside', 'aria-label': 'Devices' },
      h('div', { class: 'column' }, h('h1', {}, 'Devices'),
        h('p', { class: 'muted' },
          'They hold real connections: pushes to an offline device are stored until it reconnects.'),
        this.fault, this.list,
        h('form', { class: 'inline', onsubmit: (event) => { event.preventDefault(); this.#add() } },
          field('New device', this.id), field('Language', this.language), h('button', { type: 'submit' }, 'Add')),
        this.texts.element),
      this.screen)
    on('device', () => this.#soon())
    on('update', () => this.#soon())
    on('clock', () => this.#soon())
    on('link', (isUp) => { if (isUp) this.#soon() })
  }

  show([id]) {
    this.open = id ?? null
    this.#load()
    this.texts.load()
  }

  hide() { this.open = null; this.isHidden = true }

  back() {
    if (!this.open) return false
    this.go('/devices')
    return true
  }

  #soon() {
    if (this.element.isConnected) this.timer ??= setTimeout(() => { this.timer = null; this.#load() }, 100)
  }

  async #load() {
    try {
      const { devices } = await get('/devices')
      this.fault.hidden = true
      // A control in use is not redrawn; its change event redraws the list.
      if (!this.list.contains(document.activeElement) || !document.activeElement.matches('input, select')) {
        const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.key : null
        fill(this.list, devices.length
          ? devices.map((device) => this.#card(device)) : h('li', { class: 'empty' }, 'No devices.'))
        if (focused) this.list.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus()
      }
      const open = devices.find(({ id }) => id === this.open) ?? (this.open ? null : devices[0])
      await this.#shown(open)
    } catch (problem) {
      this.fault.hidden = false
      fill(this.fault, problem.message)
    }
  }

  #card(device) {
    const key = (name, element) => { element.dataset.key = `${device.id} ${name}`; return element }
    const change = (body) => this.#change(device.id, body)
    // Drops the focus, so that the list is redrawn with the result.
    const chosen = (name) => ({ target }) => { target.blur(); change({ [name]: target.value.trim() }) }
    const language = h('input', {
      value: device.language, size: '6', maxlength: '35', 'aria-label': `Language of ${device.id}`,
      onchange: chosen('language') })
    const power = select(POWERS, device.power, { 'aria-label': `Power of ${device.id}`, onchange: chosen('power') })
    return h('li', { class: `card-box ${device.id === this.open ? 'is-open' : ''}`, data: { device: device.id } },
      h('div', { class: 'card-head' },
        h('h2', {}, h('a', { href: `#/devices/${encodeURIComponent(device.id)}` }, plain(device.name ?? device.id))),
        h('span', { class: `badge ${device.online ? 'good' : ''}` }, device.online ? 'online' : 'offline'),
        button('Remove', () => this.#remove(device),
          { class: 'small quiet danger', 'aria-label': `Remove ${device.id}` })),
      h('div', { class: 'switches' },
        key('online', toggle('Online', Boolean(device.online), (value) => change({ online: value }))),
        key('notifications', toggle('Notifications', device.notifications,
          (value) => change({ notifications: value }))),
        h('label', { class: 'pair' }, 'Power', power), h('label', { class: 'pair' }, 'Language', language)),
      h('ul', { class: 'apps' }, Object.entries(device.apps ?? {}).map(([topic, state]) => h('li', {},
        key(topic, toggle(plain(topic), state === 'installed',
          (value) => change({ apps: { [topic]: value ? 'installed' : 'removed' } }))),
        h('span', { class: 'muted' }, state)))),
      h('details', { open: this.unfolded.has(device.id),
        ontoggle: (event) => this.unfolded[event.target.open ? 'add' : 'delete'](device.id) },
        h('summary', {}, `Tokens (${device.tokens.length})`),
        h('ul', { class: 'token-list' }, device.tokens.map(({ topic, environment, token, activity }) => h('li', {},
          h('code', { title: token }, shortened(token, 10)),
          copyButton(token, `the token of ${device.id} for ${topic}`),
          h('small', { class: 'muted' }, plain(topic), ', ', environment,
            activity != null && `, Live Activity ${activity}`))))),
      this.#channels(device))
  }

  /** What its Live Activities have subscribed to. */
  #channels({ channels = [] }) {
    return channels.length > 0 && h('ul', { class: 'token-list', 'aria-label': 'Channels' },
      channels.map(({ channel, topic, environment, subscribed }) => h('li', {},
        h('code', {}, plain(channel)), copyButton(channel, `the id ${channel}`),
        h('small', { class: 'muted' }, plain(topic), ', ', environment),
        !subscribed && h('span', { class: 'mark warn' }, 'not subscribed: no such channel'))))
  }

  async #shown(device) {
    if (!device) {
      fill(this.heading)
      fill(this.phone, this.open && h('p', { class: 'muted' }, 'This device does not exist.'))
      this.activities.draw(null, [])
      fill(this.rest)
      return
    }
    const path = `/devices/${encodeURIComponent(device.id)}`
    const [{ shown }, { activities }] = await Promise.all([get(`${path}/shown`), get(`${path}/activities`)])
    // The alert of a Live Activity is a banner beside the activity's own card.
    const items = shown.filter(({ rendering }) => rendering).map((item) => ({
      ...item, shown: item.rendering, time: item.atMilliseconds, isBanner: true }))
    const silent = items.filter(({ shown }) => shown.silent)
    const badges = Object.entries(device.badges ?? {}).filter(([, badge]) => badge > 0)
    const focused = this.phone.contains(document.activeElement) ? document.activeElement.dataset.key : null
    fill(this.heading, 'On ', plain(device.name ?? device.id))
    fill(this.phone, lockScreen(items, {
      label: `What ${device.id} shows`, unfolded: this.unfoldedThreads,
      activities: this.activities.draw(device.id, activities) }))
    if (focused) this.phone.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus()
    fill(this.rest, besidesList(items.find(({ shown }) => !shown.silent)?.shown),
      badges.length > 0 && h('p', { class: 'muted' }, 'Badges: ',
        badges.map(([topic, badge], index) => [index > 0 && ', ', plain(appName(topic)), ` ${badge}`])),
      items.length > 0 && h('div', {}, button('Clear the screen', () => this.#clear(device.id), { class: 'small' })),
      silent.length > 0 && h('p', { class: 'muted' },
        `${silent.length} silent, the last at `, when(silent[0].time, 'short')))
  }

  async #change(id, body) {
    try { await patch(`/devices/${encodeURIComponent(id)}`, body) } catch (problem) { toast(problem.message) }
    await this.#load()
  }

  async #add() {
    const id = this.id.value.trim()
    if (!id) { this.id.focus(); return }
    try {
      await post('/devices', { id, ...(this.language.value.trim() && { language: this.language.value.trim() }) })
      this.id.value = ''
      this.language.value = ''
      this.id.blur()
    } catch (problem) { toast(problem.message) }
    this.#load()
  }

  async #clear(id) {
    try { await remove(`/devices/${encodeURIComponent(id)}/shown`) } catch (problem) { toast(problem.message) }
    this.#load()
  }

  async #remove(device) {
    if (!confirm(`Remove ${device.id}? Its tokens become invalid.`)) return
    try { await remove(`/devices/${encodeURIComponent(device.id)}`) } catch (problem) { toast(problem.message) }
    if (this.open === device.id) this.go('/devices')
    else this.#load()
  }
}
