// Provider tokens to make, and tokens of both kinds to have explained.

import { post } from '/assets/api.js'
import { copyButton, field, fill, h } from '/assets/dom.js'
import { literal, timestamp } from '/assets/text.js'

const WORDS = {
  keyID: 'Key', teamID: 'Team', issuedAt: 'Issued', issuedAtSeconds: 'Issued', ageSeconds: 'Age, s', expiresAtSeconds: 'Good until',
  issuedAtMilliseconds: 'Issued', expiresAtMilliseconds: 'Good until', kind: 'Kind', valid: 'Good', device: 'Device', topic: 'Topic',
  environment: 'Environment', algorithm: 'Algorithm', signature: 'Signature', explanation: 'Explanation', problem: 'Problem', state: 'State',
  isValid: 'Good', explanations: 'Explanation', problems: 'Problems', notes: 'Notes', good: 'Good', validUntilMilliseconds: 'Good until',
}

function shown(key, value) {
  if (/Milliseconds$/.test(key)) return timestamp(value)
  if (/(At|At|Until)Seconds$/.test(key)) return timestamp(value * 1000).slice(0, 19)
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (Array.isArray(value)) return h('ul', {}, value.map((one) => h('li', {}, shown('', one))))
  if (typeof value === 'object') return described(value)
  return literal(value)
}

const worded = (key) => WORDS[key] ?? key.replace(/([A-Z]+)/g, ' $1').replace(/^./, (first) => first.toUpperCase())

/** What the service says of something, as names and values. */
function described(object, leaveOut = []) {
  const rows = Object.entries(object).filter(([key, value]) => value != null && value !== '' && !leaveOut.includes(key))
  return h('dl', { class: 'facts' }, rows.map(([key, value]) => [h('dt', {}, worded(key)), h('dd', {}, shown(key, value))]))
}

export class Tokens {
  constructor() {
    this.keyID = h('input', { autocomplete: 'off', spellcheck: 'false', placeholder: 'the one made at the start' })
    this.teamID = h('input', { autocomplete: 'off', spellcheck: 'false', placeholder: 'its team' })
    this.age = h('input', { type: 'number', step: '1', placeholder: '0' })
    this.made = h('div', { role: 'status' })
    this.given = h('textarea', { class: 'code', rows: '5', spellcheck: 'false', autocomplete: 'off' })
    this.found = h('div', { role: 'status' })
    this.element = h('section', { class: 'view', 'aria-label': 'Tokens' },
      h('h1', {}, 'Tokens'),
      h('div', { class: 'halves' },
        h('form', { class: 'box', onsubmit: (event) => { event.preventDefault(); this.#make() } },
          h('h2', {}, 'Make a provider token'),
          h('p', { class: 'muted' }, 'Signed with the stand-in’s own key. An age makes one that is old, or not valid yet.'),
          h('div', { class: 'fields' }, field('Key id', this.keyID), field('Team id', this.teamID), field('Age, minutes', this.age)),
          h('div', {}, h('button', { type: 'submit', class: 'primary' }, 'Make')), this.made),
        h('form', { class: 'box', onsubmit: (event) => { event.preventDefault(); this.#check() } },
          h('h2', {}, 'Check a token'),
          h('p', { class: 'muted' }, 'A provider token (a JWT, with or without “bearer”), or a device token.'),
          field('Token', this.given), h('div', {}, h('button', { type: 'submit', class: 'primary' }, 'Check')), this.found)))
  }

  async #make() {
    const minutes = Number(this.age.value || 0)
    const body = {}
    if (this.keyID.value.trim()) body.keyID = this.keyID.value.trim()
    if (this.teamID.value.trim()) body.teamID = this.teamID.value.trim()
    if (minutes) body.ageSeconds = Math.round(minutes * 60)
    await this.#ask(this.made, () => post('/tokens/provider', body), (answer) => [
      h('pre', { class: 'payload' }, answer.token),
      h('div', { class: 'tools' }, copyButton(answer.token, 'the provider token'),
        copyButton(`authorization: bearer ${answer.token}`, 'the header', 'Copy as a header')),
      described(answer, ['token', 'header', 'authorization'])])
  }

  async #check() {
    const token = this.given.value.trim().replace(/^(authorization:\s*)?bearer\s+/i, '')
    if (!token) { this.given.focus(); return }
    await this.#ask(this.found, () => post('/tokens/check', { token }), (answer) => described(answer, ['token']))
  }

  async #ask(place, request, draw) {
    try { fill(place, draw(await request())) } catch (problem) { fill(place, h('p', { class: 'callout bad', role: 'alert' }, problem.message)) }
  }
}
