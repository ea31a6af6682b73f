// The API of the service that this page came from, and its events.

const PREFIX = '/api/v1'

/** What the API refused or did not answer. `field`, `line` and `column` say where, as far as they are known. */
export class Problem extends Error {
  constructor(status, { code = '', message = '', field, line, column, ...rest } = {}) {
    const place = [field && `in ${field}`, line && `line ${line}`, column && `column ${column}`].filter(Boolean)
    super(`${message || `the service answered with ${status}`}${place.length ? ` (${place.join(', ')})` : ''}`)
    Object.assign(this, { status, code, field, line, column, rest })
  }
}

/** Calls the API with a body that is sent as JSON; returns what the answer's JSON says, or null where it has none. */
export async function call(method, path, body, { signal } = {}) {
  const options = { method, signal, cache: 'no-store', headers: { accept: 'application/json' } }
  if (body !== undefined) {
    options.body = JSON.stringify(body)
    options.headers['content-type'] = 'application/json'
  }
  let response
  try {
    response = await fetch(PREFIX + path, options)
  } catch (error) {
    if (error.name === 'AbortError') throw error
    throw new Problem(0, { message: 'The service cannot be reached. Is it still running?' })
  }
  const text = await response.text()
  let answer = null
  try {
    answer = text ? JSON.parse(text) : null
  } catch {
    if (response.ok) throw new Problem(response.status, { message: 'The answer cannot be read.' })
  }
  if (!response.ok) throw new Problem(response.status, { ...answer?.error, answer })
  return answer
}

export const get = (path, options) => call('GET', path, undefined, options)
export const post = (path, body, options) => call('POST', path, body, options)
export const put = (path, body) => call('PUT', path, body)
export const patch = (path, body) => call('PATCH', path, body)
export const remove = (path) => call('DELETE', path)

/** A path's query of those values that are there. */
export function query(values) {
  const pairs = Object.entries(values).filter(([, value]) => value != null && value !== '')
  return pairs.length ? `?${new URLSearchParams(pairs)}` : ''
}

const listeners = new Map()

/** Calls back for each event of a kind: push, update, device, fault, clock, cleared; and `link` (true, false). */
export function on(kind, callback) {
  if (!listeners.has(kind)) listeners.set(kind, new Set())
  listeners.get(kind).add(callback)
  return () => listeners.get(kind).delete(callback)
}

function emit(kind, value) {
  for (const callback of listeners.get(kind) ?? []) callback(value)
}

/** Follows the service's events. The browser connects again by itself and says which event it had last. */
export function follow() {
  let source
  const open = () => {
    source = new EventSource(`${PREFIX}/events`)
    source.onopen = () => emit('link', true)
    source.onerror = () => {
      emit('link', false)
      // An answer that is no stream of events ends the browser's own attempts.
      if (source.readyState === EventSource.CLOSED) setTimeout(open, 2000)
    }
    for (const kind of ['push', 'update', 'device', 'fault', 'clock', 'cleared']) {
      source.addEventListener(kind, (event) => {
        let value = null
        try { value = JSON.parse(event.data) } catch { /* An event without content is one all the same. */ }
        emit(kind, value)
      })
    }
  }
  open()
}
