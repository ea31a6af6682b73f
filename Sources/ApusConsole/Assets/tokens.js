// Makes provider tokens, and explains provider and device tokens.

import { get, post } from '/assets/api.js'
import { copyButton, facts, field, fill, h } from '/assets/dom.js'
import { when } from '/assets/pane.js'
import { duration, literal } from '/assets/text.js'

const KINDS = { provider: 'a provider token', device: 'a device token' }

/** The service's explanation of a token. */
function described(answer) {
  const time = (seconds) => seconds != null && when(seconds * 1000)
  const { problems = [], good } = answer
  return [
    good != null && h('div', { class: `callout ${good ? 'good' : 'bad'}` }, good ? h('p', {}, 'The token is valid.')
      : problems.map((problem) => h('p', {}, literal(problem.replace(/^./, (first) => first.toUpperCase())), '.'))),
    facts([
      ['Kind', KINDS[answer.kind]], ['Key id', answer.keyID && literal(answer.keyID)],
      ['Team', answer.team && literal(answer.team)],
      ['Issued', time(answer.issuedAtSeconds)],
      ['Age', answer.ageSeconds != null && duration(answer.ageSeconds * 1000)],
      ['Valid until', time(answer.expiresAtSeconds)], ['Device', answer.device && literal(answer.device)],
      ['Device id', answer.deviceID], ['Topic', answer.topic && literal(answer.topic)],
      ['Environment', answer.environment],
    ]),
  ]
}

export class Tokens {
  constructor() {
    this.keyID = h('input', { autocomplete: 'off', spellcheck: 'false', placeholder: 'the service’s own key' })
    this.teamID = h('input', { autocomplete: 'off', spellcheck: 'false', placeholder: 'the key’s team' })
    this.age = h('input', { type: 'number', step: '1', placeholder: '0' })
    this.made = h('div', { class: 'answer', role: 'status' })
    this.given = h('textarea', { class: 'code', rows: '5', spellcheck: 'false', autocomplete: 'off' })
    this.found = h('div', { class: 'answer', role: 'status' })
    this.element = h('section', { class: 'view', 'aria-label': 'Tokens' },
      h('h1', {}, 'Tokens'),
      h('div', { class: 'halves' },
        h('form', { class: 'box', onsubmit: (event) => { event.preventDefault(); this.#make() } },
          h('h2', {}, 'Make a provider token'),
          h('p', { class: 'muted' },
            'Signed with the key of the development service. The age can make the token expired or not yet valid.'),
          h('div', { class: 'fields' }, field('Key id', this.keyID), field('Team id', this.teamID),
            field('Age, minutes', this.age)),
          h('div', {}, h('button', { type: 'submit', class: 'primary' }, 'Make')), this.made),
        h('form', { class: 'box', onsubmit: (event) => { event.preventDefault(); this.#check() } },
          h('h2', {}, 'Check a token'),
          h('p', { class: 'muted' }, 'A provider token (a JWT, with or without “bearer”), or a device token.'),
          field('Token', this.given), h('div', {}, h('button', { type: 'submit', class: 'primary' }, 'Check')),
            this.found)))
  }

  async #make() {
    const minutes = Number(this.age.value || 0)
    const body = {}
    if (this.keyID.value.trim()) body.keyID = this.keyID.value.trim()
    if (this.teamID.value.trim()) body.team = this.teamID.value.trim()
    if (minutes) {
      const { now } = await get('/clock')
      body.issuedAtSeconds = Math.floor(now / 1000 - minutes * 60)
    }
    await this.#ask(this.made, () => post('/tokens/provider', body), (answer) => [
      h('pre', { class: 'payload' }, answer.token),
      h('div', { class: 'tools' }, copyButton(answer.token, 'the provider token'),
        copyButton(`authorization: ${answer.authorization}`, 'the header', 'Copy as a header')),
      described(answer)])
  }

  async #check() {
    const token = this.given.value.trim()
    if (!token) { this.given.focus(); return }
    await this.#ask(this.found, () => post('/tokens/check', { token }), (answer) => described(answer))
  }

  async #ask(place, request, draw) {
    try { fill(place, draw(await request())) } catch (problem) { fill(place,
      h('p', { class: 'callout bad', role: 'alert' }, problem.message)) }
  }
}
