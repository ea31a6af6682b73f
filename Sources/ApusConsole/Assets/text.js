// Shows untrusted text so that it cannot mislead, and formats times and sizes.

import { h } from '/assets/dom.js'

// Characters that reorder, hide or break the text around them. Joiners (U+200C, U+200D) are kept: emoji and several
// scripts need them, and they move nothing.
const CONTROLS = new RegExp(`[${[
  '\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f', '\\u00ad\\u061c\\u180e\\u200b\\u200e\\u200f',
  '\\u2028-\\u202e\\u2060-\\u206f', '\\ufeff\\ufff9-\\ufffb',
].join('')}]`, 'u')
const NAMES = {
  '\u0000': 'NUL', '\u001b': 'ESC', '\u200b': 'ZERO WIDTH SPACE', '\u200e': 'LEFT-TO-RIGHT MARK',
  '\u200f': 'RIGHT-TO-LEFT MARK', '\u202a': 'LEFT-TO-RIGHT EMBEDDING', '\u202b': 'RIGHT-TO-LEFT EMBEDDING',
  '\u202c': 'POP DIRECTIONAL FORMATTING', '\u202d': 'LEFT-TO-RIGHT OVERRIDE', '\u202e': 'RIGHT-TO-LEFT OVERRIDE',
  '\u2066': 'LEFT-TO-RIGHT ISOLATE', '\u2067': 'RIGHT-TO-LEFT ISOLATE', '\u2068': 'FIRST STRONG ISOLATE',
  '\u2069': 'POP DIRECTIONAL ISOLATE', '\ufeff': 'BYTE ORDER MARK',
}

const code = (character) => `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}`

/** The text as nodes, with a mark for each invisible character. */
export function spelled(text) {
  const nodes = []
  let rest = String(text)
  for (;;) {
    const at = rest.search(CONTROLS)
    if (at < 0) break
    if (at > 0) nodes.push(rest.slice(0, at))
    const name = code(rest[at])
    nodes.push(h('span', { class: 'control', title: NAMES[rest[at]] ?? 'a control character' }, name))
    rest = rest.slice(at + 1)
  }
  if (rest) nodes.push(rest)
  return nodes
}

/** Text isolated from the direction of its surroundings, with marks for invisible characters. */
export const literal = (text, props = {}) => h('bdi', props, spelled(text))

/** The same on one line. */
export const plain = (text, props = {}) => h('bdi', props, spelled(oneLine(text)))

export const oneLine = (text, length = 300) => {
  const line = String(text).slice(0, length * 2).replace(/\s+/g, ' ').trim()
  return line.length > length ? `${line.slice(0, length)}…` : line
}

/** A short form of a long token, with both ends. */
export const shortened = (token, ends = 8) =>
  token && token.length > ends * 2 + 3 ? `${token.slice(0, ends)}…${token.slice(-ends)}` : token ?? ''

const two = (number) => String(number).padStart(2, '0')

/** The time of day in this browser's time zone, with the date if it is not today. */
export function clock(milliseconds, { fraction = false, now = Date.now() } = {}) {
  const date = new Date(milliseconds)
  if (Number.isNaN(date.getTime())) return '–'
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`
  const whole = fraction ? `${time}.${String(date.getMilliseconds()).padStart(3, '0')}` : time
  return new Date(now).toDateString() === date.toDateString() ? whole : `${day(date)} ${whole}`
}

const day = (date) => `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`

/** Date and time in this browser's time zone. */
export const timestamp = (milliseconds) => {
  const date = new Date(milliseconds)
  return Number.isNaN(date.getTime()) ? '–' : `${day(date)} ${clock(milliseconds, { now: milliseconds })}`
}

/** The offset of this browser's time zone at the given time: "UTC", "UTC+5:30". */
export function zone(milliseconds) {
  const minutes = -new Date(milliseconds).getTimezoneOffset()
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60]
  return minutes === 0 ? 'UTC' : `UTC${minutes < 0 ? '−' : '+'}${hours}${rest ? `:${two(rest)}` : ''}`
}

/** The name of this browser's time zone: "Europe/Zurich". */
export const zoneName = () => Intl.DateTimeFormat().resolvedOptions().timeZone

/** A duration as text: "12 ms", "3.4 s", "2 h 5 min". */
export function duration(milliseconds) {
  const size = Math.abs(milliseconds)
  if (size < 1000) return `${Math.round(size)} ms`
  if (size < 60_000) return `${(size / 1000).toFixed(size < 10_000 ? 1 : 0)} s`
  const units = [['d', 86_400_000], ['h', 3_600_000], ['min', 60_000]]
  const first = units.findIndex(([, unit]) => size >= unit)
  const [name, unit] = units[first]
  const head = Math.floor(size / unit)
  const next = units[first + 1]
  const tail = next ? Math.floor((size % unit) / next[1]) : 0
  return tail ? `${head} ${name} ${tail} ${next[0]}` : `${head} ${name}`
}

export function bytes(count) {
  if (count == null) return '–'
  if (count < 1000) return `${count} B`
  const units = ['kB', 'MB', 'GB']
  let value = count / 1000
  let unit = 0
  while (value >= 1000 && unit < units.length - 1) { value /= 1000; unit += 1 }
  return `${value.toFixed(value < 10 ? 1 : 0)} ${units[unit]}`
}

export const count = (number) => (number ?? 0).toLocaleString('en')

/** The bytes of a Base64 text. */
export const decoded = (base64) => Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))

/** A hex dump: offset, sixteen bytes, and their ASCII characters. */
export function dump(data) {
  const lines = []
  for (let offset = 0; offset < data.length; offset += 16) {
    const row = [...data.slice(offset, offset + 16)]
    const left = row.map((byte) => byte.toString(16).padStart(2, '0')).join(' ').padEnd(47)
    const right = row.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : '.')).join('')
    lines.push(`${offset.toString(16).padStart(4, '0')}  ${left}  ${right}`)
  }
  return lines.join('\n')
}
