// The views of `apus dev`.

import { Channels } from '/assets/channels.js'
import { Compose } from '/assets/compose.js'
import { standInSender } from '/assets/senders.js'
import { Devices } from '/assets/devices.js'
import { get } from '/assets/api.js'
import { h } from '/assets/dom.js'
import { follow, on } from '/assets/events.js'
import { Faults } from '/assets/faults.js'
import { Inbox } from '/assets/inbox.js'
import { Status } from '/assets/status.js'
import { Tokens } from '/assets/tokens.js'
import { Violations } from '/assets/violations.js'

/** The views by name; the first is the home view. */
export function views({ go, view }) {
  const again = (push) => {
    view('compose').load(push)
    go('/compose')
  }
  return {
    inbox: { title: 'Inbox', letter: 'i', make: () => new Inbox({ go, compose: again }) },
    compose: { title: 'Compose', letter: 'c', make: () => new Compose(standInSender) },
    devices: { title: 'Devices', letter: 'd', make: () => new Devices({ go }) },
    channels: { title: 'Channels', letter: 'h', make: () => new Channels({ isDev: true }) },
    faults: { title: 'Faults', letter: 'f', make: () => new Faults() },
    violations: { title: 'Violations', letter: 'v', make: () => new Violations() },
    tokens: { title: 'Tokens', letter: 't', make: () => new Tokens() },
    status: { title: 'Status', letter: 's', make: () => new Status() },
  }
}

/** The view that has the search field. */
export const searched = 'inbox'

export const keys = [
  ['j  k', 'next, previous push'], ['Enter', 'open the push'], ['/', 'search'], ['y', 'copy the open push as curl'],
]

export const help = (spaced) => [
  h('h3', {}, 'Search'),
  h('p', { class: 'muted' }, 'Words are searched in the whole push. ',
    spaced('code', ['topic:', 'device:', 'type:', 'token:', 'verdict:']), ' narrow the search: ',
    h('code', {}, 'type:background verdict:refused'), '.'),
]

/** Shows the number of armed faults next to the view's name, because they apply in every view. */
async function showFaults() {
  let armed
  try { armed = (await get('/faults')).faults.filter(({ spent }) => !spent).length } catch { return }
  const tab = document.querySelector('#tabs [data-view=faults]')
  tab?.querySelector('.badge')?.remove()
  if (armed) tab?.append(h('span', { class: 'badge armed', title: `${armed} armed` }, armed))
}

/** Starts what runs behind every view. */
export function start(view) {
  view('inbox')
  showFaults()
  on('fault', showFaults)
  on('push', (push) => { if (!push?.verdict || push.verdict.fault) showFaults() })
  on('link', (isUp) => { if (isUp) showFaults() })
  follow()
}
