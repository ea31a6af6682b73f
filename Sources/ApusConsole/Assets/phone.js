// A push as a phone shows it on its lock screen, and a list of what is not visible there.

import { h } from '/assets/dom.js'
import { clock, spelled, timestamp, zone } from '/assets/text.js'

const COLOURS = 6
const ROWS = 12
const SUFFIX = /\.(?:voip|voip-ptt|complication|push-type\.[a-z]+|location-query|pushkit\.fileprovider)$/

/** A name for an app: the last part of its topic. */
export function appName(topic = '') {
  const base = topic.replace(SUFFIX, '')
  const part = base.split('.').pop() || 'App'
  return part.charAt(0).toUpperCase() + part.slice(1)
}

/** The icon of an app. */
export function tile(topic) {
  let sum = 0
  for (const character of topic.replace(SUFFIX, '')) sum = (sum * 31 + character.codePointAt(0)) % 9973
  return h('span', { class: `tile tile-${sum % COLOURS}`, 'aria-hidden': 'true' }, appName(topic).charAt(0))
}

const paragraph = (name, text) => text && h('p', { class: name, dir: 'auto' }, String(text))

const LEVELS = { 'time-sensitive': 'Time Sensitive', critical: 'Critical' }

/** The state of a Live Activity as a flat list of names and values. */
export function stateRows(value, prefix = '', rows = [], depth = 0) {
  if (value && typeof value === 'object' && depth < 4) {
    for (const [key, inner] of Object.entries(value)) stateRows(inner, prefix ? `${prefix}.${key}` : key, rows,
      depth + 1)
  } else if (prefix) {
    rows.push([prefix, typeof value === 'string' ? value : JSON.stringify(value)])
  }
  return rows
}

function activity(shown) {
  const { event = 'update', state, contentState, ...rest } = shown.liveActivity
  const rows = stateRows(state ?? contentState ?? rest)
  return [
    h('p', { class: 'activity-event' }, `Live Activity · ${event}`),
    paragraph('title', shown.title), paragraph('body', shown.body),
    stateTable(rows),
  ]
}

/** The rows of a state as elements. */
export const stateTable = (rows) => rows.length > 0 && h('dl', { class: 'activity' },
  rows.slice(0, ROWS).map(([name, value]) => h('div', {}, h('dt', {}, h('bdi', {}, name)),
    h('dd', {}, h('bdi', {}, value)))))

/** Whether there is a text to show: a badge, a sound or a push that wakes the app makes no banner. */
export const hasBanner = (shown) => Boolean(shown && (shown.title || shown.subtitle || shown.body))

/** One notification, or null if nothing is visible. With `isBanner`, only the alert of a Live Activity. */
export function card(shown, { topic = '', time, isBanner = false } = {}) {
  const isActivity = Boolean(shown?.liveActivity) && !isBanner
  if (!isActivity && !hasBanner(shown)) return null
  const level = LEVELS[shown.interruptionLevel]
  return h(
    'article', { class: `card level-${shown.interruptionLevel ?? 'active'}`, lang: shown.language || null },
    h('header', {}, tile(topic), h('span', { class: 'app' }, appName(topic)),
      level && h('span', { class: 'level' }, level),
      time ? h('time', { title: `${timestamp(time)} ${zone(time)}` }, clock(time, { now: time }).slice(0, 5))
        : h('span', { class: 'now' }, 'now')),
    isActivity
      ? activity(shown)
      : [paragraph('title', shown.title), paragraph('subtitle', shown.subtitle), paragraph('body', shown.body)])
}

const soundName = (sound) => (typeof sound === 'object' && sound ? sound.name ?? 'default' : sound)

/** The properties of a notification that are not on the screen. */
export function besides(shown) {
  if (!shown) return []
  const volume = typeof shown.sound === 'object' && shown.sound?.critical ? ' (critical)' : ''
  return [
    ['Sound', shown.sound && `${soundName(shown.sound)}${volume}`],
    ['Badge', shown.badge ?? null], ['Category', shown.category], ['Thread', shown.thread],
    ['Button', shown.action], ['Launch image', shown.launchImage], ['Level', shown.interruptionLevel],
    ['Relevance', shown.relevance ?? null], ['Language', shown.language],
  ].filter(([, value]) => value != null && value !== '' && value !== false)
}

/** Notifications of one thread as a list, in the place of its newest one. */
function stacks(items) {
  const threads = new Map()
  for (const item of items) {
    const { thread } = item.shown
    const key = thread ? JSON.stringify([item.topic, thread]) : Symbol('alone')
    if (threads.has(key)) threads.get(key).items.push(item)
    else threads.set(key, { key, items: [item] })
  }
  return [...threads.values()]
}

/** A stack: the newest notification, and the others below it once it is unfolded. */
function stack({ key, items }, unfolded) {
  const [first, ...rest] = items.map((item) => card(item.shown, item))
  if (rest.length === 0) return first
  return h('div', { class: 'stack' }, first,
    h('details', { open: unfolded.has(key), ontoggle: ({ target }) => unfolded[target.open ? 'add' : 'delete'](key) },
      h('summary', { data: { key } }, `${rest.length} more of this thread`), rest))
}

const MOST = 12

/**
 * The lock screen with cards on it: `items` are `{ shown, topic, time, isBanner }`, newest first. Above them are the
 * cards of Live Activities. `unfolded` has the threads that show all their notifications.
 */
export function lockScreen(items,
  { label = 'What the device shows', time = Date.now(), activities = [], unfolded = new Set() } = {}) {
  const visible = items.filter((item) => card(item.shown, item))
  const cards = [...activities, ...stacks(visible).slice(0, MOST).map((one) => stack(one, unfolded))]
  const date = new Date(time)
  return h(
    'figure', { class: 'phone', 'aria-label': label },
    h('div', { class: 'screen' },
      h('p', { class: 'hour', 'aria-hidden': 'true' }, clock(time, { now: time }).slice(0, 5)),
      h('p', { class: 'date', 'aria-hidden': 'true' },
        date.toLocaleDateString('en', { weekday: 'long', month: 'long', day: 'numeric' })),
      h('div', { class: 'cards' }, cards.length ? cards : h('p', { class: 'nothing' }, 'No notifications'))))
}

/** The list below a lock screen. */
export function besidesList(shown) {
  const rows = besides(shown)
  if (shown?.silent && !shown.liveActivity) rows.unshift(['Silent', 'the app is woken; the user sees nothing'])
  else if (shown && !shown.liveActivity && !hasBanner(shown)) rows.unshift(['No banner', 'there is no text to show'])
  return rows.length === 0 ? null : h('dl', { class: 'facts besides' },
    rows.map(([name, value]) => [h('dt', {}, name), h('dd', {}, h('bdi', {}, spelled(value)))]))
}
