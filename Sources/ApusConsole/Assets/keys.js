// The keys that providers sign their tokens with.

import { get, post, segment } from '/assets/api.js'
import { teamChoice } from '/assets/apps.js'
import { button, copyButton, field, fill, h, select, toast } from '/assets/dom.js'
import { Pane, table } from '/assets/pane.js'
import { literal, plain } from '/assets/text.js'

const PLACES = [['both', 'both'], ['production', 'production'], ['development', 'development']]

export class Keys extends Pane {
  constructor() {
    super('Keys', 'A provider signs its tokens with one. The service keeps the public half alone.')
    this.list = h('div', {})
    this.places = select(PLACES, 'both')
    this.topics = h('input', { autocomplete: 'off', spellcheck: 'false', placeholder: 'all of its team' })
    this.pem = h('textarea', { class: 'code', rows: '4', spellcheck: 'false', autocomplete: 'off',
      placeholder: '-----BEGIN PUBLIC KEY-----' })
    this.teamPlace = h('div', { class: 'field' })
    this.made = h('div', { class: 'answer', role: 'status' })
    this.add(this.list, h('form', { class: 'box', data: { needs: 'trust' }, onsubmit: (event) => { event.preventDefault(); this.#add() } },
      h('h2', {}, 'Add a key'),
      h('div', { class: 'fields' }, this.teamPlace, field('Good for', this.places),
        field('Only for these apps', this.topics, 'Bundle ids, with spaces between them.')),
      field('Public key as PEM', this.pem, 'Of a pair that the provider made. Without one, the pair is made here.'),
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
          h('p', {}, 'Its private half is shown this once, and kept nowhere:'),
          h('pre', { class: 'payload', tabindex: '0', 'aria-label': 'Private key' }, literal(answer.private_key)),
          h('p', {}, copyButton(answer.private_key, 'the private key')),
        ]))
      this.pem.value = ''
      await this.update()
    })
  }

  async #revoke(key) {
    if (!confirm(`Revoke the key ${key}, for good? What is signed with it is refused from then on.`)) return
    if (!await this.attempt(() => post(`/keys/${segment(key)}/revoke`))) return
    toast(`Revoked ${key}.`)
    this.load()
  }
}
