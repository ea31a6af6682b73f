// The pushes known to the page, one line each, newest first. Details are loaded when a push is opened.

import { get, query } from '/assets/api.js'
import { on } from '/assets/events.js'
import { oneLine } from '/assets/text.js'

const PAGE = 200
/** Maximum number of lines; the same as the service's default number of kept pushes. */
export const KEPT = 10_000
const FIELDS = new Set(['token', 'topic', 'type', 'verdict', 'device'])

/** Turns the search text, such as `topic:com.example.app hello`, into parameters of the API. */
export function parameters(text) {
  const values = {}
  const words = []
  for (const word of text.trim().split(/\s+/)) {
    const [, field, value] = /^([a-z]+):(.+)$/.exec(word) ?? []
    if (FIELDS.has(field)) values[field] = value
    else if (word) words.push(word)
  }
  if (words.length) values.q = words.join(' ')
  return values
}

const alertOf = (push) => {
  const alert = push.payload?.aps?.alert
  return typeof alert === 'string' ? { body: alert } : alert && typeof alert === 'object' ? alert : {}
}

const string = (value) => (typeof value === 'string' && value.trim() ? value : null)

/** The title of a push: what it shows, or its type if it shows nothing. */
export function nameOf(push) {
  const shown = push.shown ?? push.preview ?? {}
  const alert = alertOf(push)
  const title = string(shown.title) ?? string(alert.title) ?? string(alert['title-loc-key'])
  const body = string(shown.body) ?? string(alert.body) ?? string(alert['loc-key'])
  if (title || body) return { title: title ?? body, body: title ? body ?? '' : '', isText: true }
  const activity = shown.liveActivity ?? (push.pushType === 'liveactivity' ? push.payload?.aps : null)
  if (activity?.event) return { title: `Live Activity: ${activity.event}`, body: push.payloadText ?? '', isText: false }
  const kinds = {
    background: 'Background update', voip: 'Call', location: 'Location query', complication: 'Complication',
    fileprovider: 'File provider', mdm: 'Device management', pushtotalk: 'Push to talk', widgets: 'Widgets',
      controls: 'Controls',
  }
  return { title: kinds[push.pushType] ?? '(no alert text)', body: push.payloadText ?? '', isText: false }
}

export const isRefused = (push) => !push.verdict?.accepted

function summary(push) {
  const name = nameOf(push)
  const states = push.states ?? []
  return {
    number: push.number, time: push.receivedMilliseconds, title: oneLine(name.title, 160),
      body: oneLine(name.body, 200),
    isText: name.isText, topic: push.topic ?? '', type: push.pushType ?? '', device: push.device ?? null,
    recipients: push.channel == null ? null : push.recipients?.length ?? 0,
    environment: push.environment, status: push.verdict?.status, reason: push.verdict?.reason ?? '',
    refused: isRefused(push), fault: push.verdict?.fault ?? '', violations: push.violations?.length ?? 0,
    state: states.length ? states[states.length - 1].state : '', dropped: push.activity?.outcome === 'dropped',
  }
}

/** The lines that match a search, kept up to date. Calls `changed({ above, reset })` and `updated(number)`. */
export class Pushes {
  #newer = [] // In order of arrival, newest last.
  #older = [] // Newest first, like the pages of the API.
  #known = new Map()
  #arriving = new Map() // Reported, and inserted together.
  #next = null
  #kept = 0
  #inserted = 0 // How many have arrived since the page was opened.
  #recount = null
  #ended = false
  #isCut = false
  #loading = null
  #generation = 0
  #refreshing = false
  #stale = false

  constructor({ changed, updated, failed }) {
    Object.assign(this, { changed, updated, failed, text: '' })
    on('push', (push) => this.#arrived(push))
    on('update', (push) => this.#updated(push))
    on('batch', () => this.#insertArrived())
    // Also sent to a page that has missed events: its lines may have gaps.
    on('cleared', () => this.search(this.text))
  }

  get count() { return this.#newer.length + this.#older.length }
  get isComplete() { return this.#ended }
  /** Whether older pushes exist that are not loaded or exceed the limit. */
  get hasMore() { return !this.#ended || this.#isCut }
  /** The number of pushes that the service keeps, as far as known; for a search, the number of loaded matches. */
  get total() { return this.isFiltered ? null : Math.max(this.count, this.#kept) }
  get isFiltered() { return Object.keys(parameters(this.text)).length > 0 }

  at(index) {
    const newer = this.#newer.length
    return index < newer ? this.#newer[newer - 1 - index] : this.#older[index - newer]
  }

  /** The index of a push, or -1. Numbers decrease from the first line to the last. */
  index(number) {
    let low = 0
    let high = this.count - 1
    while (low <= high) {
      const middle = (low + high) >> 1
      const here = this.at(middle).number
      if (here === number) return middle
      if (here > number) low = middle + 1
      else high = middle - 1
    }
    return -1
  }

  /** Starts over with the pushes that match the text. */
  async search(text) {
    this.text = text
    this.#generation += 1
    this.#loading = null
    this.#newer = []
    this.#older = []
    this.#arriving.clear()
    this.#known.clear()
    this.#next = null
    this.#ended = false
    this.#isCut = false
    this.changed({ above: 0, reset: true })
    await this.more()
  }

  /** Fetches the next page, one at a time. */
  more() {
    if (this.#ended) return Promise.resolve()
    this.#loading ??= this.#load(this.#generation)
    return this.#loading
  }

  async #load(generation) {
    const inserted = this.#inserted
    try {
      const page = await get(`/pushes${query({ limit: PAGE, before: this.#next, ...parameters(this.text) })}`)
      if (generation !== this.#generation) return
      for (const push of page.pushes) {
        if (this.#known.has(push.number) || this.count >= KEPT) continue
        const line = summary(push)
        this.#older.push(line)
        this.#known.set(line.number, line)
      }
      this.#next = page.next ?? null
      this.#kept = page.kept ?? 0
      if (inserted !== this.#inserted) this.#countSoon()
      this.#isCut = this.#next != null && this.count >= KEPT
      this.#ended = this.#next == null || this.#isCut
      this.#loading = null
      this.changed({ above: 0, reset: false })
    } catch (problem) {
      if (generation !== this.#generation) return
      this.#loading = null
      this.#ended = true
      this.failed(problem)
    }
  }

  #arrived(push) {
    // Only the service can say which pushes match a search.
    if (this.isFiltered || !push?.verdict) { this.#refresh(); return }
    this.#arriving.set(push.number, push)
  }

  #insertArrived() {
    if (this.#arriving.size === 0) return
    const pushes = [...this.#arriving.values()]
    this.#arriving.clear()
    this.#insert(pushes)
  }

  /** Inserts pushes in order of arrival. */
  #insert(pushes) {
    let above = 0
    for (const push of pushes) {
      if (this.#known.has(push.number)) { this.#updated(push); continue }
      const newest = this.count ? this.at(0).number : -1
      if (push.number <= newest) continue
      const line = summary(push)
      this.#newer.push(line)
      this.#known.set(line.number, line)
      above += 1
    }
    this.#kept += above
    this.#inserted += above
    this.#countSoon()
    this.#trim()
    this.changed({ above, reset: false })
  }

  /** Asks the service for its number of kept pushes, at most once per second: it may have dropped old ones. */
  #countSoon() {
    this.#recount ??= setTimeout(async () => {
      const inserted = this.#inserted
      try { this.#kept = (await get('/pushes?limit=1')).kept } catch { /* The next page has it. */ }
      this.#recount = null
      this.changed({ above: 0, reset: false })
      // The answer may lack those that have arrived meanwhile.
      if (inserted !== this.#inserted) this.#countSoon()
    }, 1000)
  }

  #trim() {
    if (this.count <= KEPT + PAGE) return
    while (this.count > KEPT && this.#older.length) this.#known.delete(this.#older.pop().number)
    for (const line of this.#newer.splice(0, Math.max(0, this.count - KEPT))) this.#known.delete(line.number)
    this.#ended = true
    this.#isCut = true
  }

  /** Asks for new matches, at most every 300 ms. */
  async #refresh() {
    if (this.#refreshing) { this.#stale = true; return }
    this.#refreshing = true
    const generation = this.#generation
    try {
      const page = await get(`/pushes${query({ limit: PAGE, ...parameters(this.text) })}`)
      if (generation === this.#generation) {
        const newest = this.count ? this.at(0).number : -1
        const fresh = page.pushes.filter((push) => push.number > newest)
        // More pushes arrived than a page holds, so some would be missing.
        if (fresh.length === PAGE && this.count) this.search(this.text)
        else if (fresh.length) this.#insert(fresh.reverse())
      }
    } catch { /* The next event asks again. */ }
    setTimeout(() => {
      this.#refreshing = false
      if (this.#stale) { this.#stale = false; this.#refresh() }
    }, 300)
  }

  #updated(push) {
    if (this.#arriving.has(push?.number)) {
      this.#arriving.set(push.number, { ...this.#arriving.get(push.number), ...push })
      return
    }
    const line = this.#known.get(push?.number)
    if (!line) return
    if (push.verdict) Object.assign(line, summary(push))
    else if (push.states?.length) line.state = push.states[push.states.length - 1].state
    this.updated(push.number)
  }
}
