// The entry point: which service the page shows, views, addresses (#/inbox/12), keys.

import { about, hasToken, onRefused, useToken } from '/assets/api.js'
import { button, fill, h, icon } from '/assets/dom.js'
import { on } from '/assets/events.js'
import { SignIn } from '/assets/signin.js'

const main = document.getElementById('main')
const keys = document.getElementById('keys')
const link = document.getElementById('link')

const WHY = 'apus-why'

let kind = null // The module of the current views.
let VIEWS = {}
let current = null

/** Goes to an address of this page. */
function go(path, { replace = false } = {}) {
  if (location.hash === `#${path}`) return
  if (replace) { history.replaceState(null, '', `#${path}`); route() } else location.hash = path
}

const view = (name) => (VIEWS[name].made ??= VIEWS[name].make())

function place(next, name) {
  current?.hide?.()
  main.replaceChildren(next.element)
  main.dataset.view = name
  main.scrollTop = 0
  current = next
}

function route() {
  if (!kind) return
  const [name, ...rest] = location.hash.replace(/^#\/?/, '').split('/').map(part)
  const home = Object.keys(VIEWS)[0]
  const wanted = Object.hasOwn(VIEWS, name) ? name : home
  const next = view(wanted)
  if (next !== current) place(next, wanted)
  document.title = wanted === home ? 'Apus' : `${VIEWS[wanted].title} · Apus`
  for (const tab of document.querySelectorAll('#tabs a')) {
    if (tab.dataset.view === wanted) {
      tab.setAttribute('aria-current', 'page')
      tab.scrollIntoView({ block: 'nearest', inline: 'nearest' })
    } else tab.removeAttribute('aria-current')
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
  const rows = [...kind?.keys ?? [], ['Esc', 'go back, or leave a field'],
    ...kind ? [[`g then ${Object.values(VIEWS).map(({ letter }) => letter).join(' ')}`,
      'go to the view with this letter']] : [], ['?', 'show this list']]
  fill(keys, h('h2', { id: 'keys-title' }, 'Keys'),
    h('dl', { class: 'facts' },
      rows.map(([keys, text]) => [h('dt', {}, spaced('kbd', keys.split('  '))), h('dd', {}, text)])),
    kind?.help?.(spaced),
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
  else if (event.key === '/' && kind && current !== VIEWS[kind.searched].made) {
    go(`/${kind.searched}`)
    setTimeout(() => view(kind.searched).key('/'))
  } else if (!current?.key?.(event.key)) return
  event.preventDefault()
}

on('link', (isUp) => {
  link.textContent = isUp ? 'live' : 'reconnecting'
  link.classList.toggle('up', isUp)
})

/** Shows the views and loads their contents. */
async function enter(found) {
  kind = await import(found.kind === 'service' ? '/assets/service.js' : '/assets/dev.js')
  VIEWS = kind.views({ go, view })
  tabs()
  kind.start(view)
  route()
}

const leaveButton = document.getElementById('leave')

/** Reloads, so that nothing shown before stays in the page. `why` is the message above the sign-in form. */
function leave(why) {
  useToken(null)
  if (why) sessionStorage.setItem(WHY, why)
  location.reload()
}

function askWho(found) {
  link.textContent = 'signed out'
  document.title = 'Sign in · Apus'
  const why = sessionStorage.getItem(WHY)
  sessionStorage.removeItem(WHY)
  const asking = new SignIn(found, why, () => begin(found))
  place(asking, 'signin')
  asking.secret.focus()
}

function begin(found) {
  const mustAsk = found.locked && !hasToken()
  leaveButton.hidden = !found.locked || mustAsk
  if (mustAsk) askWho(found)
  else enter(found)
}

async function start() {
  try {
    begin(await about())
  } catch {
    link.textContent = 'not connected'
    fill(main, h('div', { class: 'empty' }, h('p', {}, 'The service cannot be reached. Is it still running?'),
      h('p', {}, button('Try again', start))))
  }
}

onRefused((why) => { if (kind) leave(why) })
leaveButton.addEventListener('click', () => leave())
document.querySelector('.skip').addEventListener('click', (event) => { event.preventDefault(); main.focus() })
document.getElementById('help').addEventListener('click', help)
document.addEventListener('keydown', onKey)
addEventListener('hashchange', route)
start()
