// Devices that request a certificate, and the enrolment codes that give one without approval.

import { get, post, remove, segment } from '/assets/api.js'
import { button, copyButton, field, fill, h, toast } from '/assets/dom.js'
import { box, inlineForm, start, table, when } from '/assets/pane.js'
import { plain } from '/assets/text.js'

const STATES = { waiting: 'warn', approved: 'good', rejected: 'bad', good: 'good' }
const badge = (state) => h('span', { class: `badge ${STATES[state] ?? ''}` }, state)
const number = (value, min, max) => h('input', { type: 'number', min, max, step: '1', value, required: true })

export class Enrolments {
  /** `pane`: the view that shows failures. */
  constructor(pane) {
    this.pane = pane
    this.pending = h('div', {})
    this.codes = h('div', {})
    this.name = h('input', { autocomplete: 'off', spellcheck: 'false', placeholder: 'reader-7' })
    this.hours = number('24', '1', '8760')
    this.uses = number('1', '1', '100')
    this.made = h('div', { class: 'answer', role: 'status' })
    this.asking = box('Certificate requests of devices', this.pending)
    this.element = h('div', { class: 'column' },
      box('Enrolment codes', this.codes, h('div', { data: { needs: 'operate' } },
        inlineForm(() => this.#make(), 'Make', field('Device name', this.name),
          field('Hours', this.hours), field('Uses', this.uses)), this.made)))
  }

  async update() {
    const [{ enrolments }, { codes }] = await Promise.all([get('/enrolments'), get('/codes')])
    const columns = ['Name given by device', 'State', 'From', 'Since', 'Key', '']
    this.asking.hidden = enrolments.length === 0
    fill(this.pending, table('Certificate requests of devices', columns, enrolments.map((one) => [
      plain(one.name || '–'), badge(one.state), one.address && plain(one.address), when(one.since), start(one.key),
      one.state === 'waiting' && h('span', { class: 'actions', data: { needs: 'operate' } },
        button('Approve', () => this.#decide(one, 'approve', 'Approved'), { class: 'small',
          'aria-label': `Approve ${one.name}` }),
        button('Reject', () => this.#decide(one, 'reject', 'Rejected'), { class: 'small quiet danger',
          'aria-label': `Reject ${one.name}` })),
    ]), { empty: 'No requests.' }))
    const facts = ['Name', 'State', 'Used', 'Made', 'Expires', 'SHA-256', '']
    fill(this.codes, table('Enrolment codes', facts, codes.map((one) => [
      plain(one.name || '–'), badge(one.state), `${one.used} of ${one.uses}`, when(one.made), when(one.expires),
      start(one.sha256),
      button('Withdraw', () => this.#withdraw(one), { class: 'small quiet danger', data: { needs: 'operate' },
        'aria-label': `Withdraw the code ${one.name || one.sha256.slice(0, 12)}` }),
    ])))
  }

  async #do(task, said) {
    if (!await this.pane.attempt(task)) return
    if (said) toast(said)
    await this.pane.attempt(() => this.update())
  }

  #decide({ key, name }, verb, said) {
    // The name is unverified; only the key identifies the device.
    const word = verb === 'approve' ? 'Approve' : 'Reject'
    if (!confirm(`${word} “${name}”, with the key ${key.slice(0, 12)}…?`)) return
    this.#do(() => post(`/enrolments/${segment(key)}/${verb}`), `${said}.`)
  }

  #make() {
    this.#do(async () => {
      const { code, expires } = await post('/codes', { name: this.name.value.trim() || undefined,
        hours: Number(this.hours.value), uses: Number(this.uses.value) })
      fill(this.made, h('div', { class: 'callout good' }, h('p', {}, 'Not shown again: ', h('code', {}, code), ' ',
        copyButton(code, 'the code')), h('p', { class: 'muted' }, 'Valid until ', when(expires))))
    })
  }

  #withdraw({ sha256, name }) {
    if (!confirm(`Withdraw the code ${name || sha256.slice(0, 12)}? Devices can no longer use it.`)) return
    this.#do(() => remove(`/codes/${segment(sha256)}`), 'Withdrawn.')
  }
}
