// One push: the request, the response and its explanation, the delivery path, and what the device shows.

import { get } from '/assets/api.js'
import { append, button, copy, copyButton, facts, fill, h } from '/assets/dom.js'
import { formatted } from '/assets/json.js'
import { imageLinks } from '/assets/images.js'
import { when } from '/assets/pane.js'
import { besidesList, hasBanner, lockScreen } from '/assets/phone.js'
import { isRefused, nameOf } from '/assets/pushes.js'
import { bytes, decoded, dump, duration, literal, plain, shortened, spelled } from '/assets/text.js'

const section = (title, ...children) => h('section', {}, h('h3', {}, title), children)

/** The response to a push as a coloured badge. */
export function verdictBadge(push) {
  const { status, reason, fault } = push.verdict ?? {}
  const refused = isRefused(push)
  const words = refused ? reason || (status ? 'Rejected' : 'No response') : 'Accepted'
  return [
    h('span', { class: `badge ${refused ? 'bad' : 'good'}` }, status || '', ' ', literal(words)),
    fault && h('span', { class: 'badge armed', title: 'An armed fault caused this' }, 'fault: ',
      literal(fault)),
  ]
}

function verdict(push) {
  const { explanation, notes = [], fault } = push.verdict ?? {}
  if (!explanation && !notes.length && !fault) return null
  return h(
    'div', { class: `callout verdict ${isRefused(push) ? 'bad' : ''}` },
    explanation && h('p', {}, literal(explanation)),
    fault && h('p', {}, 'Caused by the ', h('a', { href: '#/faults' }, 'fault'), ' ', literal(fault), '.'),
    notes.map((note) => h('p', { class: 'note' }, literal(note))))
}

function violations(list = []) {
  if (!list.length) return null
  return section(
    `Violations (${list.length})`,
    h('ul', { class: 'violations' }, list.map((violation) => h(
      'li', { class: violation.severity },
      h('span', { class: 'severity' }, violation.severity), ' ',
      violation.path && [h('code', {}, literal(violation.path)), ' '], h('span', {}, literal(violation.message)), ' ',
      h('small', { class: 'muted' }, violation.rule)))))
}

/** The delivery path, state by state. */
export function way(push) {
  const states = push.states ?? []
  if (!states.length) return null
  const start = push.receivedMilliseconds
  const after = (state) => state.atMilliseconds >= start && `+${duration(state.atMilliseconds - start)}`
  return section('Delivery path', h('ol', { class: 'way' }, states.map((state, index) => h(
    'li', { class: /^(Discarded|Unknown)/.test(state.state) ? 'bad' : /^(Delivered|Accepted)/.test(state.state) ? 'good' : '' },
    h('span', { class: 'state' }, literal(state.state)),
    h('span', { class: 'muted' }, (index > 0 || state.atMilliseconds > start) && after(state)),
    when(state.atMilliseconds, 'exact'),
    state.cause && h('small', { class: 'cause' }, literal(state.cause))))))
}

const deviceLink = (id) => h('a', { href: `#/devices/${encodeURIComponent(id)}` }, plain(id))

function withCopy(text, what, shown = text) {
  return text && [literal(shown, { title: text }), ' ', copyButton(text, what)]
}

function expiration(push) {
  const seconds = push.expiration
  if (seconds == null) return null
  return Number(seconds) === 0 ? '0: now or never' : [`${seconds} (`, when(Number(seconds) * 1000), ')']
}

function request(push) {
  return section('Request', facts([
    ['Received', when(push.receivedMilliseconds)],
    ['Interface', [push.interface, push.environment,
      push.connection != null && `connection ${push.connection}`].filter(Boolean).join(', ')],
    ['From', push.peer],
    ['Credential', push.credential && literal(push.credential)],
    ['Command', push.command ?? null], ['Identifier', push.identifier ?? null],
    push.channel != null ? ['Channel', withCopy(push.channel, 'the channel')]
      : ['Token', withCopy(push.token, 'the device token', shortened(push.token))],
    ['Device', push.device && deviceLink(push.device)],
    ['Topic', push.topic && literal(push.topic)],
    ['Push type', push.pushType ?? h('span', { class: 'muted' }, 'not given')],
    ['Priority', push.priority],
    ['Expiration', expiration(push)],
    ['Collapse id', push.collapseID && literal(push.collapseID)],
    push.channel != null ? ['apns-request-id', withCopy(push.apnsID, 'the apns-request-id')]
      : ['apns-id', withCopy(push.apnsID, 'the apns-id')],
    ['apns-unique-id', withCopy(push.uniqueID, 'the apns-unique-id')],
  ]))
}

function headers(push) {
  const rows = push.headers ?? []
  if (rows.length === 0) return null
  return section('Headers', h('table', { class: 'headers' }, h('tbody', {}, rows.map(([name, value]) => h(
    'tr', {}, h('th', { scope: 'row' }, literal(name)), h('td', {}, literal(value)))))))
}

function payload(push) {
  const text = push.payloadText ?? ''
  const raw = push.payloadBase64 ? decoded(push.payloadBase64) : new TextEncoder().encode(text)
  const modes = { Formatted: () => formatted(text), 'As sent': () => spelled(text), Bytes: () => dump(raw) }
  const view = h('pre', { class: 'payload', tabindex: '0', 'aria-label': 'Payload' })
  const choices = h('div', { class: 'segments', role: 'group', 'aria-label': 'Payload view' })
  const show = (mode) => {
    view.classList.toggle('bytes', mode === 'Bytes')
    fill(view, modes[mode]())
    for (const choice of choices.children) choice.setAttribute('aria-pressed', choice.textContent === mode)
  }
  append(choices, Object.keys(modes).map((mode) => button(mode, () => show(mode))))
  show(push.payload == null ? 'As sent' : 'Formatted')
  return section(
    'Payload',
    h('div', { class: 'tools' }, choices, h('span', { class: 'muted' }, bytes(push.payloadBytes ?? raw.length)),
      copyButton(text, 'the payload')),
    push.payloadBase64 && h('p', { class: 'callout' },
      'This payload is not UTF-8. Invalid bytes are shown as \ufffd; Bytes shows the original.'),
    push.payload == null && !push.payloadBase64 && text && h('p', { class: 'callout' }, 'This payload is not JSON.'),
    text || raw.length ? view : h('p', { class: 'muted' }, 'No payload.'))
}

/** Why no device has shown the push. */
function unseen(push) {
  if (isRefused(push)) return 'The push was rejected, so no device gets it.'
  if (push.channel != null) return 'No virtual device has received it yet.'
  if (push.activity?.outcome === 'dropped') return 'The device dropped it.'
  return push.device ? 'The device has not shown it yet.' : 'No virtual device has this token.'
}

/** Why there is nothing to see. */
function nothing(shown) {
  if (!shown) return 'Nothing: a phone cannot read this payload.'
  return shown.silent ? 'Nothing is shown: the app wakes in the background.' : 'No banner: there is no text to show.'
}

function rendering(push) {
  const shown = push.shown ?? push.preview
  const isSeen = shown && (hasBanner(shown) || shown.liveActivity)
  return section(
    push.shown ? 'On the device' : 'As a phone would show it',
    isSeen
      ? lockScreen([{ shown, topic: push.topic ?? '', time: push.receivedMilliseconds }],
        { time: push.receivedMilliseconds })
      : h('p', { class: 'muted' }, nothing(shown)),
    isSeen && !push.shown && h('p', { class: 'muted caption' }, unseen(push), ' It would look like this.'),
    shown && besidesList(shown), imageLinks(push.payload))
}

/** What the device did with a push to a Live Activity. */
function activity(push) {
  const { outcome, activity: id, reason } = push.activity ?? {}
  if (!outcome) return null
  const device = push.device && deviceLink(push.device)
  return h('div', { class: `callout verdict ${outcome === 'dropped' ? 'warn' : ''}` }, outcome === 'dropped'
    ? h('p', {}, h('strong', {}, 'Dropped by the device'), ': ', literal(reason ?? ''), '.')
    : h('p', {}, `Live Activity ${id} `, h('strong', {}, outcome), device && [' on ', device], '.'))
}

/** The virtual devices that received a broadcast. */
function recipients(push) {
  if (push.channel == null || isRefused(push)) return null
  const list = push.recipients ?? []
  return section(`Recipients (${list.length})`, list.length === 0
    ? h('p', { class: 'muted' }, 'A device subscribes when a Live Activity with this channel starts.')
    : h('ol', { class: 'way' }, list.map(({ device, atMilliseconds, fromStorage, activity }) => h(
      'li', { class: activity?.outcome === 'dropped' ? 'bad' : 'good' },
      h('span', { class: 'state' }, deviceLink(device)),
      h('span', { class: 'muted' }, `+${duration(atMilliseconds - push.receivedMilliseconds)}`,
        fromStorage && ', from storage'),
      when(atMilliseconds, 'exact'),
      activity && h('small', { class: 'cause' }, activity.outcome === 'dropped'
        ? ['Dropped: ', literal(activity.reason ?? '')] : `Live Activity ${activity.activity} ${activity.outcome}`)))))
}

/** The push as elements. `actions` follow the actions that every push has. */
export function pushDetail(push, { onback, onagain }) {
  const name = nameOf(push)
  return [
    h('header', { class: 'detail-head' },
      button('‹ Back', onback, { class: 'back quiet', 'aria-label': 'Back to the list' }),
      h('h2', { tabindex: '-1', id: 'push-title' }, plain(name.title)),
      h('p', { class: 'badges' }, verdictBadge(push), h('span', { class: 'badge' }, push.pushType ?? 'no push type'),
        h('span', { class: 'muted' }, `No. ${push.number}`)),
      h('div', { class: 'actions' },
        push.curl && button('Copy as curl', () => copy(push.curl, 'a curl command'), { id: 'copy-curl' }),
        button('Edit and send', () => onagain(push)))),
    h('div', { class: 'detail-body' }, verdict(push), activity(push),
      h('div', { class: 'wide' }, violations(push.violations), way(push), recipients(push), payload(push), request(push), headers(push)),
      h('aside', { class: 'beside' }, rendering(push))),
  ]
}

export const fetchPush = (number, options) => get(`/pushes/${number}`, options)
