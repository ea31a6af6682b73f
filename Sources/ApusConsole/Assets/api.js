// The API of the service that this page came from: that of `apus dev`, or that of `apus serve`.

const KEPT_UNDER = 'apus-token'

let prefix = '/api/v1'
// Kept for as long as the browser's tab is open, and sent with each request by this page alone: not a cookie, which
// the browser would send with requests of others too.
let token = sessionStorage.getItem(KEPT_UNDER)
let refused = () => {}

/** What the API refused or did not answer. `field`, `line` and `column` say where, as far as they are known. */
export class Problem extends Error {
  constructor(status, { code = '', message = '', field, line, column, ...rest } = {}) {
    const place = [field && `in ${field}`, line && `line ${line}`, column && `column ${column}`].filter(Boolean)
    super(`${message || `the service answered with ${status}`}${place.length ? ` (${place.join(', ')})` : ''}`)
    Object.assign(this, { status, code, field, line, column, rest })
  }
}

/** Finds out what this page shows: `{ kind: 'dev' | 'service', locked, version }`. */
export async function about() {
  const places = ['/api/v1', '/v1']
  // The service says in the page itself that it is the one.
  if (document.documentElement.dataset.kind === 'service') places.reverse()
  for (const place of places) {
    const response = await fetch(`${place}/console`, { cache: 'no-store', headers: { accept: 'application/json' } })
    const answer = response.ok ? await response.json().catch(() => null) : null
    if (!answer?.kind) continue
    prefix = place
    return { locked: answer.kind === 'service', ...answer }
  }
  // A stand-in from before there were others.
  return { kind: 'dev', locked: false }
}

export const hasToken = () => token != null

/** From now on this token goes with each request; null forgets it. */
export function useToken(text) {
  token = text
  if (text == null) sessionStorage.removeItem(KEPT_UNDER)
  else sessionStorage.setItem(KEPT_UNDER, text)
}

/** Calls back with what the service says when it does not take the token any more. */
export function onRefused(callback) { refused = callback }

/** Sends a request and returns its answer as the browser has it; one that says no is a `Problem`. */
export async function request(method, path, { headers, ...options } = {}) {
  const fields = { accept: 'application/json', ...headers }
  if (token != null) fields.authorization = `Bearer ${token}`
  let response
  try {
    response = await fetch(prefix + path, { method, cache: 'no-store', headers: fields, ...options })
  } catch (error) {
    if (error.name === 'AbortError') throw error
    throw new Problem(0, { message: 'The service cannot be reached. Is it still running?' })
  }
  if (response.ok) return response
  const text = await response.text()
  let answer = null
  try { answer = JSON.parse(text) } catch { /* It has no more to say than its status. */ }
  // `apus dev` says {"error": {"code", "message", ...}}, the administration {"reason", "detail"}.
  const said = answer?.error ?? (answer?.reason && { code: answer.reason, message: answer.detail })
  const problem = new Problem(response.status, { ...said, answer })
  if (response.status === 401) {
    useToken(null)
    refused(problem.message)
  }
  throw problem
}

/** Calls the API with a body that is sent as JSON; returns what the answer's JSON says, or null where it has none. */
export async function call(method, path, body, options = {}) {
  if (body !== undefined) {
    options = { ...options, body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }
  }
  const text = await (await request(method, path, options)).text()
  try {
    return text ? JSON.parse(text) : null
  } catch {
    throw new Problem(200, { message: 'The answer cannot be read.' })
  }
}

export const get = (path, options) => call('GET', path, undefined, options)
export const post = (path, body, options) => call('POST', path, body, options)
export const put = (path, body) => call('PUT', path, body)
export const patch = (path, body) => call('PATCH', path, body)
export const remove = (path) => call('DELETE', path)

export const getText = async (path) => (await request('GET', path, { headers: { accept: 'text/plain' } })).text()
export const putText = (path, text) =>
  request('PUT', path, { body: text, headers: { 'content-type': 'text/plain; charset=utf-8' } })

/** A path's query of those values that are there. */
export function query(values) {
  const pairs = Object.entries(values).filter(([, value]) => value != null && value !== '')
  return pairs.length ? `?${new URLSearchParams(pairs)}` : ''
}

/** A part of a path, whatever is in it. */
export const segment = (text) => encodeURIComponent(text)
