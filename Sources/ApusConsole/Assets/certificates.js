// Known certificates with their remaining validity, and revoked ones.

import { get, post, segment } from '/assets/api.js'
import { button, fill, h, toast } from '/assets/dom.js'
import { Pane, box, start, table, timeLeft, when } from '/assets/pane.js'
import { plain } from '/assets/text.js'

/** The kinds that can be revoked here; the service's own certificates are replaced instead. */
const REVOCABLE = new Set(['provider', 'device'])

/** The authorities without a rotation: that for servers and providers, and that for devices. */
const AUTHORITIES = 2

/** The state of a rotation of an authority, if one is in progress: until its end, older authorities are trusted too. */
function rotation(authorities) {
  if (authorities.length <= AUTHORITIES) return null
  return h('div', { class: 'callout warn', role: 'status' },
    h('p', {}, h('strong', {}, 'An authority is being replaced.'),
      ` ${authorities.length} are trusted until the rotation ends: `,
      authorities.map(({ name }, index) => [index > 0 && ', ', plain(name)]), '.'),
    h('p', {}, 'To end it: ', h('code', {}, 'apus rotate service-authority --finish'), ' or ',
      h('code', {}, 'apus rotate device-authority --finish'), '.'))
}

export class Certificates extends Pane {
  constructor() {
    super('Certificates', 'Certificates of the service, providers and devices, soonest expiry first.')
    this.rotation = h('div', {})
    this.list = h('div', {})
    this.revoked = h('div', {})
    this.add(this.rotation, this.list, box('Revoked', this.revoked))
  }

  async update() {
    const { certificates, revoked } = await get('/certificates')
    const gone = new Set(revoked)
    fill(this.rotation, rotation(certificates.filter(({ kind }) => kind === 'authority')))
    const sorted = certificates.toSorted((one, other) => one.seconds_left - other.seconds_left)
    fill(this.list, table('Certificates', ['Name', 'Kind', 'Expires', 'Left', 'SHA-256', ''], sorted.map((one) => [
      plain(one.name || '–'), one.kind, when(one.not_after),
      gone.has(one.sha256) ? h('span', { class: 'badge bad' }, 'revoked') : timeLeft(one.seconds_left),
      start(one.sha256),
      REVOCABLE.has(one.kind) && !gone.has(one.sha256) && button('Revoke', () => this.#revoke(one), {
        class: 'small quiet danger', data: { needs: 'trust' },
        'aria-label': `Revoke the certificate of ${one.name}` }),
    ])))
    fill(this.revoked, table('Revoked certificates', ['SHA-256'], revoked.map((sha) => [h('code', {}, sha)])))
  }

  async #revoke({ name, sha256 }) {
    if (!confirm(`Revoke the certificate of ${name} permanently? Connections with it are refused.`)) return
    if (!await this.attempt(() => post(`/certificates/${segment(sha256)}/revoke`))) return
    toast('Revoked.')
    this.load()
  }
}
