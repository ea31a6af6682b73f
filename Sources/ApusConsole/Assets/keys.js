// The keys with which providers sign their tokens.

import { get, post, segment } from '/assets/api.js'
import { teamChoice } from '/assets/apps.js'
import { button, copyButton, field, fill, h, select, toast } from '/assets/dom.js'
import { Pane, table } from '/assets/pane.js'
import { literal, plain } from '/assets/text.js'

const PLACES = [['both', 'both'], ['production', 'production'], ['development', 'development']]

export class Keys extends Pane {
  constructor() {
    super('Keys', 'Providers sign their tokens with these keys. The service stores only the public half.')
    this.list = h('div', {})
    this.places = select(PLACES, 'both')
    this.topics = h('input', { autocomplete: 'off', spellcheck: 'false', placeholder: 'all of its team' })
    this.pem = h('textarea', { class: 'code', rows: '4', spellcheck: 'false', autocomplete: 'off',
      placeholder: '-----BEGIN PUBLIC KEY-----' })
    this.teamPlace = h('div', { class: 'field' })
    this.made = h('div', { class: 'answer', role: 'status' })
    this.add(this.list, h('form', { class: 'box', data: { needs: 'trust' }, onsubmit: (event) => { event.preventDefault(); this.#add() } },
      h('h2', {}, 'Add a key'),
      h('div', { class: 'fields' }, this.teamPlace, field('Valid for', this.places),
        field('Only for these apps', this.topics, 'Bundle ids, separated by spaces.')),
      field('Public key as PEM', this.pem,
        'Of a key pair that the provider made. If empty, the service makes the pair.'),
      h('div', {}, h('button', { type: 'submit', class: 'primary' }, 'Add')), this.made))
  }

  async update() {
    const [{ keys }, { teams }] = await Promise.all([get('/keys'), get('/teams')])
    fill(this.list, table('Keys', ['Key', 'Team', 'Environments', 'Apps', 'State', ''], keys.map((key) => [
      h('code', {}, key.key), key.team, (key.environments ?? []).join(', '),
      key.topics?.length ? plain(key.topics.join(', ')) : 'all of its team',
      key.revoked ? h('span', { class: 'badge bad' }, 'revoked') : h('span', { class: 'badge good' }, 'good'),
      !key.revoked && button('Revoke', () => this.#revoke(key.key),
        { class: 'small quiet danger', data: { needs: 'trust' }, 'aria-label': `Revoke ${key.key}` }),
    ])))
    if (this.teamPlace.contains(document.activeElement)) return
    this.team = teamChoice(teams)
    this.teamPlace.hidden = !this.team
    fill(this.teamPlace, this.team && field('Team', this.team))
  }

  async #add() {
    const topics = this.topics.value.split(/[\s,]+/).filter(Boolean)
    const body = {
      team: this.team?.value, environments: this.places.value, topics: topics.length ? topics : undefined,
      public_key: this.pem.value.trim() ? `${this.pem.value.trim()}\n` : undefined,
    }
    await this.attempt(async () => {
      const answer = await post('/keys', body)
      fill(this.made, h('div', { class: 'callout good' },
        h('p', {}, h('strong', {}, `Added the key ${answer.key}`), ` of the team ${answer.team}.`),
        answer.private_key && [
          h('p', {}, 'The private half is not stored and not shown again:'),
          h('pre', { class: 'payload', tabindex: '0', 'aria-label': 'Private key' }, literal(answer.private_key)),
          h('p', {}, copyButton(answer.private_key, 'the private key')),
        ]))
      this.pem.value = ''
      await this.update()
    })
  }

  async #revoke(key) {
    if (!confirm(`Revoke the key ${key} permanently? Tokens signed with it are rejected.`)) return
    if (!await this.attempt(() => post(`/keys/${segment(key)}/revoke`))) return
    toast(`Revoked ${key}.`)
    this.load()
  }
}
