// What the views of the service have in common: a title, a word on what failed, tables, and times.

import { fill, h } from '/assets/dom.js'
import { count, duration, literal, timestamp, zone } from '/assets/text.js'

/** A view that asks for what is in it each time that it is shown: a class of it has `update()`. */
export class Pane {
  constructor(title, note) {
    this.fault = h('p', { class: 'callout bad', role: 'alert', hidden: true })
    this.element = h('section', { class: 'view', 'aria-label': title },
      h('h1', {}, title), note && h('p', { class: 'muted' }, note), this.fault)
  }

  add(...children) { this.element.append(...children) }

  show(parts) {
    this.parts = parts
    this.isOfLoading = true // What was said before was said.
    return this.load()
  }

  /** What could not be done stays said although the rest is well. */
  load() { return this.attempt(() => this.update(), { isLoading: true }) }

  /** Does something, and says what kept it from being done. Whether nothing did. */
  async attempt(task, { isLoading = false } = {}) {
    try {
      await task()
      if (this.isOfLoading || !isLoading) this.fault.hidden = true
      return true
    } catch (problem) {
      this.isOfLoading = isLoading
      const isNew = this.fault.hidden || this.fault.textContent !== problem.message
      if (isNew) fill(this.fault, problem.message)
      this.fault.hidden = false
      if (isNew) this.fault.scrollIntoView({ block: 'nearest' })
      return false
    }
  }
}

/**
 * A table that a phone shows row by row. The roles are said as well: what is laid out anew is otherwise none to some
 * screen readers. `rows` are arrays of cells; a cell is what an element can have in it. Null is an empty one.
 */
export function table(label, columns, rows, { empty = 'There are none.', className = '' } = {}) {
  if (rows.length === 0) return h('p', { class: 'muted' }, empty)
  const cell = (content, index) => h(index === 0 ? 'th' : 'td', {
    role: index === 0 ? 'rowheader' : 'cell', scope: index === 0 ? 'row' : null,
    data: { label: columns[index] }, class: content == null || content === '' || content === false ? 'void' : null,
  }, h('div', {}, content))
  return h('table', { role: 'table', 'aria-label': label, class: `rows ${className}` },
    h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, columns.map((title) => h('th',
      { role: 'columnheader', scope: 'col' }, title || h('span', { class: 'offscreen' }, 'Actions'))))),
    h('tbody', { role: 'rowgroup' }, rows.map((cells) => h('tr', { role: 'row' }, cells.map(cell)))))
}

export const box = (title, ...children) => h('section', { class: 'box' }, h('h2', {}, title), children)

/** A form in a line, with a button at its end. */
export const inlineForm = (onsubmit, word, ...children) =>
  h('form', { class: 'inline', onsubmit: (event) => { event.preventDefault(); onsubmit() } }, children,
    h('button', { type: 'submit' }, word))

/** A time of RFC 3339, or Unix milliseconds, as this browser's zone has it, and which zone that is. */
export function when(time) {
  if (time == null || time === '') return null
  const milliseconds = typeof time === 'number' ? time : Date.parse(time)
  if (Number.isNaN(milliseconds)) return literal(time)
  const utc = new Date(milliseconds).toISOString()
  return h('time', { datetime: utc, title: utc }, timestamp(milliseconds).slice(0, 19), ' ',
    h('small', { class: 'muted' }, zone(milliseconds)))
}

const LEVELS = [[0, 'bad', 'is over'], [86_400, 'bad', null], [7 * 86_400, 'bad', null], [30 * 86_400, 'warn', null]]

/** How long a certificate is good for yet, in the colour of the warning that the service gives. */
export function timeLeft(seconds) {
  const [, style, words] = LEVELS.find(([limit]) => seconds <= limit) ?? [0, 'good', null]
  const days = Math.floor(seconds / 86_400)
  return h('span', { class: `badge ${style}` },
    words ?? (days > 1 ? `${count(days)} days left` : `${duration(seconds * 1000)} left`))
}

/** The whole of a long name for those who point at it, and its beginning. */
export const start = (text, length = 12) => h('code', { title: text }, text.length > length + 1
  ? `${text.slice(0, length)}…` : text)
