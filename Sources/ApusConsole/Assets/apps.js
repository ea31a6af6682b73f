// The apps and their teams.

import { get, post, remove, segment } from '/assets/api.js'
import { button, field, fill, h, select, toast } from '/assets/dom.js'
import { Pane, box, inlineForm, table } from '/assets/pane.js'
import { count, plain } from '/assets/text.js'

/** A control to choose a team; null if there is only one. */
export function teamChoice(teams) {
  return teams.length < 2 ? null
    : select(teams.map(({ team, name }) => [team, name ? `${name} (${team})` : team]), teams[0].team)
}

const input = (props) => h('input', { autocomplete: 'off', spellcheck: 'false', required: true, ...props })

/** What the list says about an app's upstream. */
function upstreamText(upstream) {
  const name = { apple: 'Apple', 'apple-sandbox': 'Apple (sandbox)' }[upstream.service] ?? upstream.service
  return upstream.key_id ? `${name}, key ${upstream.key_id} of team ${upstream.team}` : `${name}, with a certificate`
}

export class Apps extends Pane {
  constructor() {
    super('Apps', 'Providers can send to these topics only.')
    this.list = h('div', {})
    this.teams = h('div', {})
    this.form = h('div', { data: { needs: 'trust' } })
    this.topic = input({ placeholder: 'com.example.app' })
    this.name = input({ placeholder: 'Example Ltd', maxlength: '256' })
    this.add(this.list, this.form, box('Teams', this.teams, h('div', { data: { needs: 'trust' } },
      inlineForm(() => this.#addTeam(), 'Add', field('New team', this.name)))))
  }

  async update() {
    const [{ apps }, { teams }] = await Promise.all([get('/apps'), get('/teams')])
    const columns = ['Topic', 'Team', 'Retention', 'Upstream', 'Pushes to dead tokens', '']
    fill(this.list, table('Apps', columns, apps.map((app) => [
      plain(app.topic), app.team, app.retain && plain(app.retain), app.upstream && plain(upstreamText(app.upstream)),
      count(app.dead_token_pushes),
      button('Remove', () => this.#remove(app.topic),
        { class: 'small quiet danger', data: { needs: 'trust' }, 'aria-label': `Remove ${app.topic}` }),
    ])))
    fill(this.teams, table('Teams', ['Name', 'Id'], teams.map(({ team, name }) => [plain(name || '–'), team])))
    if (this.form.contains(document.activeElement)) return
    this.team = teamChoice(teams)
    fill(this.form, inlineForm(() => this.#addApp(), 'Add', field('New app: its bundle id', this.topic),
      this.team && field('Team', this.team)))
  }

  async #addApp() {
    const topic = this.topic.value.trim()
    const done = await this.attempt(() => post('/apps', { topic, team: this.team?.value }))
    if (!done) return
    this.topic.value = ''
    this.topic.blur()
    toast(`Added ${topic}.`)
    this.load()
  }

  async #addTeam() {
    const done = await this.attempt(() => post('/teams', { name: this.name.value.trim() }))
    if (!done) return
    this.name.value = ''
    this.load()
  }

  async #remove(topic) {
    if (!confirm(`Remove ${topic}? Its device tokens become invalid.`)) return
    if (await this.attempt(() => remove(`/apps/${segment(topic)}`))) { toast(`Removed ${topic}.`); this.load() }
  }
}
