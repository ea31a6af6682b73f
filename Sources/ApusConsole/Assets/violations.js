// The violations of providers since the start, by rule, in accepted and rejected pushes.

import { get, request } from '/assets/api.js'
import { button, fill, h, toast } from '/assets/dom.js'
import { on } from '/assets/events.js'
import { when } from '/assets/pane.js'
import { count, literal, plain } from '/assets/text.js'

/** Saves a response as a file. A plain link would not work: it sends no password. */
async function download(path, name) {
  try {
    const href = URL.createObjectURL(await (await request('GET', path, { headers: { accept: '*/*' } })).blob())
    h('a', { href, download: name }).click()
    setTimeout(() => URL.revokeObjectURL(href), 60_000)
  } catch (problem) { toast(problem.message) }
}

export class Violations {
  constructor() {
    this.body = h('div', { class: 'rules' })
    this.counts = h('p', { class: 'badges' })
    this.element = h('section', { class: 'view', 'aria-label': 'Violations' },
      h('h1', {}, 'Violations'),
      h('p', { class: 'muted' },
        'Problems with pushes and the way they were sent, whether accepted or not. For CI: ',
        button('JUnit XML', () => download('/violations?format=junit', 'violations.xml'), { class: 'small' }), ' ',
        button('JSON', () => download('/violations', 'violations.json'), { class: 'small' })),
      this.counts, this.body)
    for (const kind of ['push', 'update', 'cleared']) on(kind, () => this.#soon())
  }

  show() { this.#load() }

  #soon() {
    if (this.element.isConnected) this.timer ??= setTimeout(() => { this.timer = null; this.#load() }, 500)
  }

  async #load() {
    try {
      const { counts, rules } = await get('/violations')
      fill(this.counts, [['error', 'bad', 'errors'], ['warning', 'warn', 'warnings'],
        ['note', '', 'notes']].map(([severity, style, word]) => h(
        'span', { class: `badge ${counts[severity] ? style : ''}` },
        `${count(counts[severity])} ${counts[severity] === 1 ? severity : word}`)))
      const open = new Set([...this.body.querySelectorAll('details[open]')].map((element) => element.dataset.rule))
      fill(this.body, rules.length === 0
        ? h('p', { class: 'empty' }, 'None so far.') : rules.map((rule) => this.#rule(rule, open)))
    } catch (problem) {
      fill(this.body, h('p', { class: 'callout bad' }, problem.message))
    }
  }

  #rule({ rule, severity, source, count: number, pushes }, open) {
    return h('details', { data: { rule }, open: open.has(rule), class: `box ${severity}` },
      h('summary', {}, h('span', { class: 'severity' }, severity), ' ', h('strong', {}, rule), ' ',
        h('span', { class: 'muted' }, `${count(number)} ${number === 1 ? 'push' : 'pushes'}`)),
      pushes.slice(0, 1).map(({ path, message }) => h('p', {},
        path && [h('code', {}, literal(path)), ' '], literal(message))),
      source && h('p', { class: 'muted' }, 'Rule: ', source),
      h('table', {}, h('thead', {},
        h('tr', {}, ['Push', 'Time', 'Where', 'Topic'].map((text) => h('th', { scope: 'col' }, text)))),
        h('tbody', {}, pushes.map((push) => h('tr', {},
          h('td', {}, h('a', { href: `#/inbox/${push.number}` }, push.number)),
          h('td', {}, when(push.receivedMilliseconds, 'short')),
          h('td', {}, push.path && h('code', {}, literal(push.path))), h('td', {}, push.topic && plain(push.topic)))))),
      number > pushes.length && h('p', { class: 'muted' }, `Only the first ${pushes.length} are shown.`))
  }
}
