// The audit log, newest first: changes, refused peers and rejected requests.

import { get, query } from '/assets/api.js'
import { button, field, fill, h } from '/assets/dom.js'
import { Pane, inlineForm, table, when } from '/assets/pane.js'
import { literal, plain } from '/assets/text.js'

const PAGE = 100
const NAMED = ['time', 'event', 'actor', 'subject', 'reason', 'explanation']

/** The fields of an entry that have no column. */
const rest = (entry) => Object.entries(entry).filter(([name, value]) => !NAMED.includes(name) && value !== '')
  .map(([name, value], index) => [index > 0 && ', ', `${name} `, literal(String(value))])

/** Entries of the audit log as a table. */
export function entryTable(label, entries) {
  return table(label, ['Time', 'Event', 'Who', 'About', 'Why'], entries.map((entry) => [
    when(entry.time), entry.event, entry.actor && plain(entry.actor),
    [entry.subject && literal(entry.subject), entry.subject && rest(entry).length > 0 && ', ', rest(entry)],
    (entry.reason || entry.explanation) && [entry.reason && h('strong', {}, literal(entry.reason)), ' ',
      entry.explanation && literal(entry.explanation)],
  ]), { empty: 'Nothing.', className: 'log' })
}

export class Audit extends Pane {
  constructor() {
    super('Audit', 'Changes to the service, and refused connections and requests.')
    this.event = h('input', { autocomplete: 'off', spellcheck: 'false', placeholder: 'key.revoked' })
    this.actor = h('input', { autocomplete: 'off', spellcheck: 'false', placeholder: 'token alice' })
    this.list = h('div', { class: 'column' })
    this.add(inlineForm(() => this.load(), 'Search', field('Event', this.event), field('Who (beginning)',
      this.actor)), this.list)
  }

  async update() {
    fill(this.list)
    await this.#page(null)
  }

  async #page(before) {
    const { entries, next } = await get(`/audit${query({
      limit: PAGE, before, event: this.event.value.trim(), actor: this.actor.value.trim() })}`)
    this.list.append(entryTable(before == null ? 'Audit log' : 'Audit log, older', entries))
    if (next == null) return
    const more = button('Older', async () => { more.remove(); await this.attempt(() => this.#page(next)) })
    this.list.append(more)
  }

  key(key) {
    if (key !== '/') return false
    this.event.focus()
    return true
  }
}
