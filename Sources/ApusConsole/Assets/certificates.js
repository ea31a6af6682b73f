// Known certificates with their remaining validity, and revoked ones.

import { get, post, segment } from '/assets/api.js'
import { button, fill, h, toast } from '/assets/dom.js'
import { Pane, box, start, table, timeLeft, when } from '/assets/pane.js'
import { plain } from '/assets/text.js'

/** The kinds that can be revoked here; the service's own certificates are replaced instead. */
const REVOCABLE = new Set(['provider', 'device'])

export class Certificates extends Pane {
  constructor() {
    super('Certificates', 'Certificates of the service, providers and devices, soonest expiry first.')
    this.list = h('div', {})
    this.revoked = h('div', {})
    this.add(this.list, box('Revoked', this.revoked))
  }

  async update() {
    const { certificates, revoked } = await get('/certificates')
    const gone = new Set(revoked)
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
