// What happened to notifications, and which requests were rejected and why.

import { get, post, query, segment } from '/assets/api.js'
import { facts, field, fill, h, select } from '/assets/dom.js'
import { Pane, box, inlineForm, table, when } from '/assets/pane.js'
import { way } from '/assets/push.js'
import { literal, plain, zoneName } from '/assets/text.js'

const STATES = [['', 'all'], ...[
  'Received by APNs', 'Stored - Device Offline', 'Stored - Power Considerations', 'Sent to Device',
  'Delivered to Device', 'Delivered to Device (From Storage)', 'Discarded - Replaced', 'Discarded - Expired',
  'Discarded - Refused by Device', 'Discarded - Token Unregistered', 'Discarded - Disabled', 'Discarded - Not Stored',
  'Discarded - Store Failed', 'Discarded - Never Acknowledged', 'Sent Upstream', 'Stored - Upstream Unavailable',
  'Accepted Upstream', 'Discarded - Rejected Upstream', 'Unknown - No Answer from Upstream', 'Sent Again - Accepted Before',
].map((state) => [state, state])]
const LIMIT = 200
const FOLLOW_MILLISECONDS = 1000

/** The colour of a state. */
export const styleOf = (state) => (
  /^(Discarded|Refused|Unknown)/.test(state) ? 'bad' : /^(Delivered|Accepted)/.test(state) ? 'good' : '')

/** A time, and the state that was reached, with its cause. */
export const stateCells = (line) => [when(line.milliseconds), [
  h('span', { class: `mark ${styleOf(line.state)}` }, literal(line.state)), ' ',
  line.cause && h('span', { class: 'muted' }, literal(line.cause))]]

const isEnd = (state) => /^(Delivered|Discarded|Accepted|Unknown)/.test(state)

/** Turns the search text into a query for the ledger and the rejected requests. */
export function asked(text) {
  if (!text) return {}
  if (/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(text)) return { id: text }
  if (/^[\da-f]{16}$/i.test(text)) return { device: text }
  // Those of Live Activities at an upstream are longer than others.
  if (/^([\da-f]{2}){32,100}$/i.test(text)) return { token: text }
  // A topic has dots; anything else is a device's name.
  return text.includes('.') ? { topic: text } : { device: text }
}

/** Nothing for a device of another service. */
const deviceLink = ({ device, device_name: name }) => device && h('a', { href: `#/devices/${segment(device)}` },
  h('code', {}, device), name && [' ', plain(name)])
/** A notification, by the beginning of its id. */
export const link = (id) => h('a', { href: `#/ledger/${segment(id)}`, title: id }, h('code', {}, `${id.slice(0, 8)}…`))

export class Ledger extends Pane {
  constructor({ go }) {
    super('Ledger', 'What happened to notifications, and which requests were rejected.')
    this.go = go
    this.text = h('input', { type: 'search', autocomplete: 'off', spellcheck: 'false', class: 'token' })
    this.states = select(STATES, '')
    this.since = h('input', { type: 'datetime-local', step: '1' })
    this.until = h('input', { type: 'datetime-local', step: '1' })
    this.found = h('div', { class: 'column' })
    this.add(h('div', { class: 'search' }, inlineForm(() => this.#search(), 'Search',
      field('apns-id, token, device or topic', this.text), field('State', this.states),
      field(`From (${zoneName()})`, this.since), field(`Before (${zoneName()})`, this.until))), this.found)
  }

  show(parts) {
    this.text.value = parts[0] ?? ''
    fill(this.found)
    this.drawn = ''
    this.looks = 0
    return super.show(parts)
  }

  hide() {
    clearTimeout(this.timer)
    this.parts = null
  }

  /** Searches again, with growing intervals. */
  #follow() {
    this.looks += 1
    this.timer = setTimeout(() => {
      if (document.hidden) this.#follow()
      else this.load()
    }, this.looks > 10 ? 5 * FOLLOW_MILLISECONDS : FOLLOW_MILLISECONDS)
  }

  back() {
    if (!this.parts?.[0]) return false
    this.go('/ledger')
    return true
  }

  key(key) {
    if (key !== '/') return false
    this.text.focus()
    this.text.select()
    return true
  }

  #search() {
    const text = this.text.value.trim()
    if (text === (this.parts?.[0] ?? '')) this.load()
    else this.go(text ? `/ledger/${segment(text)}` : '/ledger')
  }

  #times() {
    const time = (input) => (input.value ? new Date(input.value).getTime() : undefined)
    return { since_milliseconds: time(this.since), until_milliseconds: time(this.until) }
  }

  async update() {
    clearTimeout(this.timer)
    const text = this.parts?.[0]?.trim() ?? ''
    const what = asked(text)
    // For a single notification, all states are of interest.
    const states = this.states.value && !what.id ? [this.states.value] : undefined
    const times = what.id ? {} : this.#times()
    let unknown = null
    const search = async (fields) => {
      try {
        return (await post('/ledger/query', { ...fields, ...times, states, limit: LIMIT })).lines
      } catch (problem) {
        // An unknown topic, or a token of another service: requests for them were rejected and are shown below.
        if (problem.status !== 404) throw problem
        unknown = problem.message
        return []
      }
    }
    let lines = await search(what)
    // The service's own id has the same form.
    if (what.id && lines.length === 0) lines = await search({ unique_id: what.id })
    // Rejected requests are recorded without full tokens.
    const { entries } = what.token || states ? { entries: [] }
      : await get(`/refusals${query({ ...what, ...times, limit: 50 })}`)
    // The user has opened another address meanwhile.
    if (!this.parts || text !== (this.parts[0]?.trim() ?? '')) return
    const drawn = JSON.stringify([text, lines, entries, unknown])
    if (drawn !== this.drawn) this.#draw(what, states, lines, entries, unknown)
    this.drawn = drawn
    // A line appears in the ledger a moment after the event.
    if (what.id && entries.length === 0 && !(lines.length > 0 && isEnd(lines.at(-1).state))) this.#follow()
  }

  #draw(what, states, lines, entries, unknown) {
    fill(this.found, unknown && h('p', { class: 'callout bad', role: 'alert' }, unknown),
      what.id ? this.#notifications(lines) : !unknown && this.#lines(lines),
      (entries.length > 0 || !what.id) && !(what.token || states) && this.#refusals(entries),
      what.id && lines.length === 0 && entries.length === 0 && h('p', { class: 'empty' },
        'Not found in the ledger or the rejected requests.'))
  }

  /** Lines, newest first. */
  #lines(lines) {
    return box(lines.length === LIMIT ? `The newest ${LIMIT} lines` : 'Lines',
      table('Lines of the ledger', ['Time', 'State', 'Topic', 'Type', 'Device', 'apns-id'],
        lines.toReversed().map((line) => [
          ...stateCells(line), plain(line.topic), line.push_type,
          deviceLink(line), link(line.id),
        ]), { empty: 'Nothing matches.', className: 'log' }))
  }

  /** The notifications with this id, each with all its states. */
  #notifications(lines) {
    const each = Map.groupBy(lines, (line) => line.unique_id ?? line.id)
    return [...each.values()].map((lines) => {
      const [first] = lines
      return box('Notification', h('div', { class: 'halves' },
        way({ receivedMilliseconds: first.milliseconds,
          states: lines.map(({ state, milliseconds, cause }) => ({ state, cause, atMilliseconds: milliseconds })) }),
        facts([
          ['apns-id', h('code', {}, first.id)], ['apns-unique-id', first.unique_id && h('code', {}, first.unique_id)],
          ['Topic', plain(first.topic)], ['Environment', first.environment], ['Push type', first.push_type],
          ['Priority', first.priority], ['Interface', first.interface === 'binary' ? 'binary' : 'HTTP/2'],
          ['Device', deviceLink(first)],
          ['Token', first.token && h('code', {}, first.token)],
          ['Since', when(first.milliseconds)],
        ])))
    })
  }

  #refusals(entries) {
    return box('Rejected requests', table('Rejected requests', ['Time', 'Reason', 'Why', 'Who', 'Topic', 'apns-id'],
      entries.map((entry) => [
        when(entry.time), h('strong', {}, literal(entry.reason ?? entry.event)),
        entry.explanation && literal(entry.explanation), entry.actor && plain(entry.actor),
        entry.topic && plain(entry.topic), entry.id && link(entry.id),
      ]), { empty: 'No rejected requests.', className: 'log' }))
  }
}
