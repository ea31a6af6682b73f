// The views of `apus serve`.

import { get } from '/assets/api.js'
import { Apps } from '/assets/apps.js'
import { Audit } from '/assets/audit.js'
import { Certificates } from '/assets/certificates.js'
import { Channels } from '/assets/channels.js'
import { Compose } from '/assets/compose.js'
import { Fleet } from '/assets/fleet.js'
import { Keys } from '/assets/keys.js'
import { Ledger } from '/assets/ledger.js'
import { Overview } from '/assets/overview.js'
import { serviceSender } from '/assets/senders.js'
import { Webhooks } from '/assets/webhooks.js'

/** The views by name; the first is the home view. */
export const views = ({ go }) => ({
  overview: { title: 'Overview', letter: 'o', make: () => new Overview() },
  devices: { title: 'Devices', letter: 'd', make: () => new Fleet({ go }) },
  ledger: { title: 'Ledger', letter: 'l', make: () => new Ledger({ go }) },
  send: { title: 'Send', letter: 's', make: () => new Compose(serviceSender) },
  apps: { title: 'Apps', letter: 'a', make: () => new Apps() },
  channels: { title: 'Channels', letter: 'h', make: () => new Channels() },
  keys: { title: 'Keys', letter: 'k', make: () => new Keys() },
  certificates: { title: 'Certificates', letter: 'c', make: () => new Certificates() },
  webhooks: { title: 'Webhooks', letter: 'w', make: () => new Webhooks() },
  audit: { title: 'Audit', letter: 'u', make: () => new Audit() },
})

/** The view that has the search field. */
export const searched = 'ledger'

export const keys = [['/', 'search']]

/** Starts what runs behind every view, and hides what the token does not permit. */
export function start() {
  get('/status').then(({ scopes }) => { document.body.dataset.scopes = scopes.join(' ') }, () => {})
  const link = document.getElementById('link')
  link.textContent = 'signed in'
  link.classList.add('up')
}
