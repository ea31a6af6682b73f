// The API of the service that served this page: that of `apus dev` or of `apus serve`.

const KEPT_UNDER = 'apus-token'

let prefix = '/api/v1'
// Kept while the browser's tab is open, and sent by this page only: not a cookie, which the browser would also send
// with requests of other pages.
let token = sessionStorage.getItem(KEPT_UNDER)
let refused = () => {}

/** A failed request. `field`, `line` and `column` locate the error if known. */
export class Problem extends Error {
  constructor(status, { code = '', message = '', field, line, column, ...rest } = {}) {
    const place = [field && `in ${field}`, line && `line ${line}`, column && `column ${column}`].filter(Boolean)
    super(`${message || `the service responded with ${status}`}${place.length ? ` (${place.join(', ')})` : ''}`)
    Object.assign(this, { status, code, field, line, column, rest })
  }
}

/** Finds out which service this page belongs to: `{ kind: 'dev' | 'service', locked, version }`. */
export async function about() {
  const places = ['/api/v1', '/v1']
  // `apus serve` marks its page.
  if (document.documentElement.dataset.kind === 'service') places.reverse()
  for (const place of places) {
    const response = await fetch(`${place}/console`, { cache: 'no-store', headers: { accept: 'application/json' } })
    const answer = response.ok ? await response.json().catch(() => null) : null
    if (!answer?.kind) continue
    prefix = place
    return { locked: answer.kind === 'service', ...answer }
  }
  // A development service older than this endpoint.
  return { kind: 'dev', locked: false }
}

export const hasToken = () => token != null

/** Sets the token that each request sends; null forgets it. */
export function useToken(text) {
  token = text
  if (text == null) sessionStorage.removeItem(KEPT_UNDER)
  else sessionStorage.setItem(KEPT_UNDER, text)
}

/** Calls back with the service's message when it no longer accepts the token. */
export function onRefused(callback) { refused = callback }

/** Sends a request and returns the browser's response object; throws a `Problem` for an error status. */
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
  // `apus dev` sends {"error": {"code", "message", ...}}, the administration API {"reason", "detail"}.
  const said = answer?.error ?? (answer?.reason && { code: answer.reason, message: answer.detail })
  const problem = new Problem(response.status, { ...said, answer })
  if (response.status === 401) {
    useToken(null)
    refused(problem.message)
  }
  throw problem
}

/** Calls the API with a JSON body; returns the response's JSON, or null if it has none. */
export async function call(method, path, body, options = {}) {
  if (body !== undefined) {
    options = { ...options, body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }
  }
  const text = await (await request(method, path, options)).text()
  try {
    return text ? JSON.parse(text) : null
  } catch {
    throw new Problem(200, { message: 'The response cannot be read.' })
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

/** A query string of the values that are not empty. */
export function query(values) {
  const pairs = Object.entries(values).filter(([, value]) => value != null && value !== '')
  return pairs.length ? `?${new URLSearchParams(pairs)}` : ''
}

/** Encodes a path segment. */
export const segment = (text) => encodeURIComponent(text)
