// The page's beginning: views, addresses (#/inbox/12), keys.

import { follow, on } from '/assets/api.js'
import { Compose } from '/assets/compose.js'
import { Devices } from '/assets/devices.js'
import { fill, h, icon } from '/assets/dom.js'
import { Faults } from '/assets/faults.js'
import { Inbox } from '/assets/inbox.js'
import { Status } from '/assets/status.js'
import { Tokens } from '/assets/tokens.js'
import { Violations } from '/assets/violations.js'

const main = document.getElementById('main')
const keys = document.getElementById('keys')

const VIEWS = {
  inbox: { title: 'Inbox', letter: 'i', make: () => new Inbox({ go, compose: again }) },
  compose: { title: 'Compose', letter: 'c', make: () => new Compose({ go }) },
  devices: { title: 'Devices', letter: 'd', make: () => new Devices({ go }) },
  faults: { title: 'Faults', letter: 'f', make: () => new Faults() },
  violations: { title: 'Violations', letter: 'v', make: () => new Violations() },
  tokens: { title: 'Tokens', letter: 't', make: () => new Tokens() },
  status: { title: 'Status', letter: 's', make: () => new Status() },
}

const HELP = [
  ['j  k', 'next, previous push'], ['Enter', 'open it'], ['Esc', 'back, or out of a field'], ['/', 'search'],
  ['y', 'copy the open push as curl'], ['g then i c d f v t s', 'go to a view, by its first letter'],
  ['?', 'this list'],
]

let current = null

/** Goes to an address of this page. */
function go(path, { replace = false } = {}) {
  if (location.hash === `#${path}`) return
  if (replace) { history.replaceState(null, '', `#${path}`); route() } else location.hash = path
}

function again(push) {
  view('compose').load(push)
  go('/compose')
}

const view = (name) => (VIEWS[name].made ??= VIEWS[name].make())

function route() {
  const [name, ...rest] = location.hash.replace(/^#\/?/, '').split('/').map(part)
  const wanted = Object.hasOwn(VIEWS, name) ? name : 'inbox'
  const next = view(wanted)
  if (next !== current) {
    current?.hide?.()
    main.replaceChildren(next.element)
    main.dataset.view = wanted
    main.scrollTop = 0
    current = next
  }
  document.title = wanted === 'inbox' ? 'Apus' : `${VIEWS[wanted].title} · Apus`
  for (const link of document.querySelectorAll('#tabs a')) {
    if (link.dataset.view === wanted) link.setAttribute('aria-current', 'page')
    else link.removeAttribute('aria-current')
  }
  next.show?.(rest)
}

function part(text) {
  try { return decodeURIComponent(text) } catch { return text }
}

function tabs() {
  fill(document.getElementById('tabs'), Object.entries(VIEWS).map(([name, { title, letter }]) => h(
    'li', {}, h('a', { href: `#/${name}`, data: { view: name }, 'aria-keyshortcuts': `g ${letter}` }, icon(name),
      h('span', {}, title)))))
}

const spaced = (name, words) => words.map((word, index) => [index > 0 && ' ', h(name, {}, word)])

function help() {
  fill(keys, h('h2', { id: 'keys-title' }, 'Keys'),
    h('dl', { class: 'facts' },
      HELP.map(([keys, text]) => [h('dt', {}, spaced('kbd', keys.split('  '))), h('dd', {}, text)])),
    h('h3', {}, 'Search'),
    h('p', { class: 'muted' }, 'Words are looked for in all of a push. ',
      spaced('code', ['topic:', 'device:', 'type:', 'token:', 'verdict:']), ' narrow it down: ',
      h('code', {}, 'type:background verdict:refused'), '.'),
    h('form', { method: 'dialog' }, h('button', { autofocus: true }, 'Close')))
  if (!keys.open) keys.showModal()
}

const typing = (element) => element?.matches?.('input, select, textarea, [contenteditable]')
  && !element.matches('input[type=checkbox], input[type=radio]')

let awaited = 0

function onKey(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || keys.open) return
  if (event.key === 'Escape') {
    if (typing(document.activeElement)) document.activeElement.blur()
    else if (!current?.back?.()) return
    event.preventDefault()
    return
  }
  if (typing(event.target)) return
  if (event.key === 'Enter' && event.target.closest('a, button, summary, [role=switch]')) return
  const after = Date.now() - awaited < 1200
  awaited = 0
  const target = after && Object.keys(VIEWS).find((name) => VIEWS[name].letter === event.key)
  if (target) { go(`/${target}`); main.focus() }
  else if (event.key === 'g') awaited = Date.now()
  else if (event.key === '?') help()
  else if (event.key === '/' && current !== VIEWS.inbox.made) { go('/inbox'); setTimeout(() => view('inbox').key('/')) }
  else if (!current?.key?.(event.key)) return
  event.preventDefault()
}

on('link', (isUp) => {
  const element = document.getElementById('link')
  element.textContent = isUp ? 'live' : 'reconnecting'
  element.classList.toggle('up', isUp)
})

tabs()
document.getElementById('help').addEventListener('click', help)
document.addEventListener('keydown', onKey)
addEventListener('hashchange', route)
view('inbox')
follow()
route()
