// The events of the development service.
//
// Read with `fetch`, because `EventSource` sends no token. And only while the page is visible: a browser opens at most
// six connections to a host, and hidden pages would use them up. A page that becomes visible gets the missed events.

import { request } from '/assets/api.js'
import { atFrame } from '/assets/dom.js'

const listeners = new Map()

/**
 * Calls back for each event of a kind: push, update, device, fault, clock, cleared; and `link` (true, false), and
 * `batch` after all events reported before a frame is drawn.
 */
export function on(kind, callback) {
  if (!listeners.has(kind)) listeners.set(kind, new Set())
  listeners.get(kind).add(callback)
  return () => listeners.get(kind).delete(callback)
}

function emit(kind, value) {
  for (const callback of listeners.get(kind) ?? []) callback(value)
}

let waiting = []

/** Reports the events since the previous frame, so that a thousand events per second cost sixty redraws. */
function tell() {
  const events = waiting
  waiting = []
  for (const { kind, data } of events) {
    let value = null
    try { value = JSON.parse(data) } catch { /* An event without content is one all the same. */ }
    emit(kind, value)
  }
  emit('batch')
}

let connection = null
let last = ''
let wasConnected = false
let pauseMilliseconds = 1000

/** One event's lines (HTML Living Standard, section 9.2.6). */
function read(lines) {
  let kind = 'message'
  const data = []
  for (const line of lines) {
    const [, name, text] = /^([^:]*):? ?(.*)$/s.exec(line)
    if (name === 'event') kind = text
    else if (name === 'data') data.push(text)
    else if (name === 'id') last = text
    else if (name === 'retry' && /^\d+$/.test(text)) pauseMilliseconds = Number(text)
  }
  if (data.length === 0) return
  waiting.push({ kind, data: data.join('\n') })
  atFrame(tell)
}

async function readAll(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (;;) {
    const { value, done } = await reader.read()
    if (done) return
    const events = (rest + value).split('\n\n')
    rest = events.pop()
    for (const event of events) read(event.split('\n'))
  }
}

async function connect(own) {
  while (connection === own) {
    try {
      const headers = { accept: 'text/event-stream', ...(last && { 'last-event-id': last }) }
      const { body } = await request('GET', '/events?brief=true', { headers, signal: own.signal })
      emit('link', true)
      // Without a last event to continue after, missed events are unknown.
      if (wasConnected && !last) emit('cleared', { lost: true })
      wasConnected = true
      await readAll(body)
    } catch (problem) {
      if (problem.status === 401) connection = null
    }
    if (connection !== own) return
    emit('link', false)
    await new Promise((done) => { setTimeout(done, pauseMilliseconds) })
  }
}

function update() {
  if (document.hidden) {
    connection?.abort()
    connection = null
  } else if (!connection) {
    connection = new AbortController()
    connect(connection)
  }
}

/** Follows the events from now on, and reconnects whenever the connection is lost. */
export function follow() {
  document.addEventListener('visibilitychange', update)
  update()
}
