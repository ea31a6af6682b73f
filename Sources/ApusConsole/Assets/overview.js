// The overview: current figures, charts, totals, the nodes of a cluster, and certificates that expire soon.

import { get, query } from '/assets/api.js'
import { Chart } from '/assets/chart.js'
import { button, fill, h } from '/assets/dom.js'
import { Pane, box, start, table, when } from '/assets/pane.js'
import { bytes, count, duration, literal, plain } from '/assets/text.js'

const EVERY_MILLISECONDS = 2000
const HISTORY_EVERY_MILLISECONDS = 10_000
const MINUTE = 60_000
/** Time ranges of the charts, with the seconds between samples. */
const RANGES = [['10 min', 10 * MINUTE, 10], ['1 h', 60 * MINUTE, 20], ['6 h', 360 * MINUTE, 120],
  ['24 h', 1440 * MINUTE, 480]]

const rate = (value) => (value >= 100 ? count(Math.round(value)) : String(Number(value.toFixed(1))))
const milliseconds = (value) => (value == null ? '–' : duration(value))
const sum = (list = [], key) => list.reduce((total, one) => total + one[key], 0)
const STATES = { serving: 'good', standby: 'good', away: 'bad', stopped: 'warn' }
const COLOURS = new Map([[30, 'warn'], [7, 'bad'], [1, 'bad'], [0, 'bad']])

export class Overview extends Pane {
  #range = RANGES[1]
  #before = null

  constructor() {
    super('Overview')
    this.state = h('span', { role: 'status' })
    this.age = h('span', { class: 'muted' })
    this.tiles = h('dl', { class: 'tiles' })
    this.ranges = h('div', { class: 'segments', role: 'group', 'aria-label': 'How far back' },
      RANGES.map((range) => button(range[0], () => this.#choose(range), { 'aria-pressed': range === this.#range })))
    this.charts = [
      new Chart({ title: 'Per second', format: rate, series: [{ name: 'accepted', key: 'accepted_per_second' },
        { name: 'delivered', key: 'delivered_per_second' }, { name: 'rejected', key: 'refused_per_second' }] }),
      new Chart({ title: 'Connected devices', format: count, series: [{ name: 'devices', key: 'devices_connected' }] }),
      new Chart({ title: 'Milliseconds to acceptance', format: count, series: [{ name: 'half within', key: 'p50' },
        { name: '99 % within', key: 'p99' }] }),
      new Chart({ title: 'Stored notifications', format: count,
        series: [{ name: 'waiting', key: 'stored_notifications' }] }),
    ]
    this.tables = h('div', { class: 'halves' })
    this.certificates = h('div', {})
    this.nodes = h('div', {})
    this.add(h('p', { class: 'tools' }, this.state, this.age), this.tiles, h('div', { class: 'tools' }, h('h2', {}, 'Over time'), this.ranges),
      h('div', { class: 'halves' }, this.charts.map(({ element }) => element)),
      this.tables, this.nodes, box('Certificates', this.certificates))
    document.addEventListener('visibilitychange', () => { if (this.isShown && !document.hidden) this.#again(0) })
  }

  show() {
    this.isShown = true
    this.historyAt = 0
    return this.#again(0)
  }

  hide() {
    this.isShown = false
    clearTimeout(this.timer)
  }

  /** Only while the view is visible and no request is pending. */
  #again(pause) {
    clearTimeout(this.timer)
    this.timer = setTimeout(async () => {
      if (!this.isShown || document.hidden) return
      await this.load()
      if (this.isShown) this.#again(EVERY_MILLISECONDS)
    }, pause)
  }

  async update() {
    const now = await get('/overview')
    this.#drawState(now)
    this.#drawTiles(now)
    this.#drawTables(now)
    this.#drawNodes((await get('/nodes')).nodes)
    if (now.milliseconds - this.historyAt >= HISTORY_EVERY_MILLISECONDS) await this.#loadHistory(now)
  }

  async #loadHistory(now) {
    const [, length, step] = this.#range
    const since = now.milliseconds - length
    const { samples } = await get(`/history${query({ since_milliseconds: since, step_seconds: step })}`)
    for (const chart of this.charts) chart.set(samples, [since, now.milliseconds])
    this.historyAt = now.milliseconds
  }

  #choose(range) {
    this.#range = range
    for (const choice of this.ranges.children) choice.setAttribute('aria-pressed', choice.textContent === range[0])
    this.historyAt = 0
    this.#again(0)
  }

  #drawState({ ready, problem, store_available: hasStore, ephemeral, version, uptime_seconds: uptime }) {
    const isWell = ready && hasStore !== false
    const text = `${ready ? 'ready' : 'not ready'}${problem ? `: ${problem}` : ''}`
      + `${hasStore === false ? '; the store accepts no writes' : ''}${ephemeral ? '; stores nothing on disk' : ''}`
    // Changed only if different, because a screen reader announces each change.
    if (this.state.dataset.text !== text) {
      this.state.dataset.text = text
      fill(this.state, h('span', { class: `badge ${isWell ? 'good' : 'bad'}` }, isWell ? 'ready' : 'problem'), ' ',
        text === 'ready' ? '' : literal(text))
    }
    this.age.textContent = `Apus ${version}, up ${duration(Math.max(1, uptime) * 1000)}`
    const link = document.getElementById('link')
    const said = isWell ? 'ready' : 'trouble'
    if (link.textContent !== said) link.textContent = said
    link.classList.toggle('up', isWell)
  }

  /** Rates since the previous figures; empty the first time. */
  #rates(now) {
    const { milliseconds: at, totals } = now
    const sums = { accepted: totals.accepted, delivered: totals.delivered, refused: sum(totals.refused, 'requests') }
    const before = this.#before
    this.#before = { at, sums }
    if (!before || at <= before.at) return {}
    return Object.fromEntries(Object.keys(sums).map((name) =>
      [name, Math.max(0, sums[name] - before.sums[name]) * 1000 / (at - before.at)]))
  }

  #drawTiles(now) {
    const { devices, providers, latencies } = now
    const rates = this.#rates(now)
    const perSecond = (value) => (value == null ? '–' : rate(value))
    const places = Object.entries(devices.by_environment ?? {}).map(([name, one]) => `${count(one)} ${name}`)
    const { idle = 0, low_power: low = 0 } = devices.by_power ?? {}
    const latency = (name) => [milliseconds(latencies[name]?.p50),
      latencies[name]?.count ? `90 % ${milliseconds(latencies[name].p90)}, 99 % ${milliseconds(latencies[name].p99)}`
        : 'none in the last minute']
    const tiles = [
      ['Connected devices', count(devices.connected),
        `${places.join(', ')}; ${count(idle)} idle, ${count(low)} low power`],
      ['Accepted per second', perSecond(rates.accepted), `${count(now.totals.accepted)} in total`],
      ['Delivered per second', perSecond(rates.delivered), `${count(now.totals.delivered)} in total`],
      ['Rejected per second', perSecond(rates.refused), `${count(sum(now.totals.refused, 'requests'))} in total`],
      ['Time to acceptance', ...latency('acceptance')],
      ['Time to acknowledgement', ...latency('delivery')],
      ['Stored', count(now.stored_notifications), 'waiting for devices'],
      ['In flight', count(now.in_flight), `${count(now.open_requests)} ${now.open_requests === 1 ? 'request' : 'requests'} in progress`],
      ['Provider connections', count(sum(Object.values(providers).map((one) => ({ one })), 'one')),
        `${count(providers.http2)} HTTP/2, ${count(providers.binary)} binary, ${count(providers.feedback)} feedback`],
      ['Memory', bytes(now.memory_bytes), 'resident'],
    ]
    fill(this.tiles, tiles.map(([name, value, note]) => h('div', {}, h('dt', {}, name),
      h('dd', { class: 'figure' }, value), h('dd', { class: 'muted' }, note))))
  }

  #drawNodes(nodes) {
    const rows = nodes.map(({ node, state, draining, version, address, asked }) => [
      [plain(node), asked && h('span', { class: 'muted' }, ' (this page’s)')],
      [h('span', { class: `badge ${STATES[state] ?? 'warn'}` }, state),
        draining && [' ', h('span', { class: 'badge warn' }, 'draining')]],
      plain(version), plain(address ?? '–'),
    ])
    const drawn = JSON.stringify(nodes.map(({ silent_ms: silent, ...rest }) => rest))
    if (drawn === this.drawnNodes) return
    this.drawnNodes = drawn
    fill(this.nodes, nodes.length > 0
      && box('Nodes', table('Nodes', ['Name', 'State', 'Version', 'Address'], rows)))
  }

  #drawTables({ totals, certificates }) {
    const drawn = JSON.stringify([totals, certificates])
    if (drawn === this.drawn) return
    this.drawn = drawn
    fill(this.tables,
      box('Notifications by state', table('States', ['State', 'Notifications'], [
        ['Accepted', totals.accepted], ['Delivered', totals.delivered],
        ['Delivered from storage', totals.delivered_from_storage], ['Stored', totals.stored],
        ...(totals.accepted_upstream > 0 ? [['Accepted upstream', totals.accepted_upstream]] : []),
        ['Pending', totals.pending],
        ...(totals.discarded ?? []).map(({ state, notifications }) => [plain(state), notifications]),
      ].map(([state, number]) => [state, count(number)]), { className: 'numbers' })),
      box('Rejected requests', table('Rejected requests', ['Reason', 'Status', 'Requests'],
        (totals.refused ?? []).map(({ reason, status, requests }) => [plain(reason), status, count(requests)]),
        { empty: 'No rejected requests.', className: 'numbers' })))
    const sorted = certificates.toSorted((one, other) => one.days_left - other.days_left)
    fill(this.certificates, table('Certificates', ['Name', 'Kind', 'Expires', 'Left', 'SHA-256'], sorted.map((one) => [
      plain(one.name || one.subject || '–'), one.kind, when(one.not_after),
      h('span', { class: `badge ${COLOURS.get(one.warning) ?? 'good'}` }, one.warning === 0 ? 'expired'
        : `${count(one.days_left)} ${one.days_left === 1 ? 'day' : 'days'}`),
      one.sha256 && start(one.sha256),
    ])))
  }
}
