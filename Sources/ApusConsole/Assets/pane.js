// Shared parts of the service's views: a title, a failure message, tables, and times.

import { fill, h } from '/assets/dom.js'
import { clock, count, duration, literal, timestamp, zone } from '/assets/text.js'

/** A view that loads its contents each time it is shown; subclasses implement `update()`. */
export class Pane {
  constructor(title, note) {
    this.fault = h('p', { class: 'callout bad', role: 'alert', hidden: true })
    this.element = h('section', { class: 'view', 'aria-label': title },
      h('h1', {}, title), note && h('p', { class: 'muted' }, note), this.fault)
  }

  add(...children) { this.element.append(...children) }

  show(parts) {
    this.parts = parts
    this.isOfLoading = true // Clears an earlier message.
    return this.load()
  }

  /** The message of a failed action stays visible after a successful load. */
  load() { return this.attempt(() => this.update(), { isLoading: true }) }

  /** Runs an action and shows its failure. Returns whether it succeeded. */
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
 * A table that a phone shows row by row. Roles are explicit because some screen readers otherwise do not recognize a
 * table with changed layout. `rows` are arrays of cells; a cell is any child of an element, or null if empty.
 */
export function table(label, columns, rows, { empty = 'None.', className = '' } = {}) {
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

/** A form on one line, with a button at its end. */
export const inlineForm = (onsubmit, word, ...children) =>
  h('form', { class: 'inline', onsubmit: (event) => { event.preventDefault(); onsubmit() } }, children,
    h('button', { type: 'submit' }, word))

const FORMS = {
  full: timestamp,
  /** The time of day, with the date if it is not today. */
  short: (milliseconds) => clock(milliseconds),
  /** The time of day with milliseconds, where the date is beside it. */
  exact: (milliseconds) => clock(milliseconds, { fraction: true, now: milliseconds }),
}

/** An RFC 3339 time, or Unix milliseconds, in this browser's time zone, which is shown too. */
export function when(time, form = 'full') {
  if (time == null || time === '') return null
  const milliseconds = typeof time === 'number' ? time : Date.parse(time)
  const date = new Date(milliseconds)
  if (Number.isNaN(date.getTime())) return typeof time === 'number' ? '–' : literal(time)
  const utc = date.toISOString()
  return h('time', { datetime: utc, title: utc }, FORMS[form](milliseconds), ' ',
    h('small', { class: 'muted' }, zone(milliseconds)))
}

const LEVELS = [[0, 'bad', 'expired'], [86_400, 'bad', null], [7 * 86_400, 'bad', null], [30 * 86_400, 'warn', null]]

/** The remaining validity of a certificate, in the colour of the service's warning. */
export function timeLeft(seconds) {
  const [, style, words] = LEVELS.find(([limit]) => seconds <= limit) ?? [0, 'good', null]
  const days = Math.floor(seconds / 86_400)
  return h('span', { class: `badge ${style}` },
    words ?? (days > 1 ? `${count(days)} days left` : `${duration(seconds * 1000)} left`))
}

/** The beginning of a long name, with the full name as a tooltip. */
export const start = (text, length = 12) => h('code', { title: text }, text.length > length + 1
  ? `${text.slice(0, length)}…` : text)
