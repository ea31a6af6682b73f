// The channels for broadcasts, of the apps that may have them.

import { get, patch, post, query, remove, segment } from '/assets/api.js'
import { button, copyButton, field, fill, h, select, toast } from '/assets/dom.js'
import { Pane, box, inlineForm, table, when } from '/assets/pane.js'
import { literal, plain } from '/assets/text.js'

const PAGE = 200

const COLUMNS = [
  'Channel', 'Topic', 'Environment', 'Keeps', 'Created', 'Subscribers', 'Published', 'Delivered', '',
]

const STORAGE = { newest: 'newest broadcast', none: 'nothing' }

/** The apps of `apus dev`, which may all have channels. */
const devApps = async () => ({ apps: (await get('/status')).topics.map((topic) => ({ topic, broadcast: 'on' })) })

export class Channels extends Pane {
  /** `isDev`: of `apus dev`, where a device subscribes when a Live Activity with the channel starts. */
  constructor({ isDev = false } = {}) {
    super('Channels', 'One broadcast on a channel goes to every device that is subscribed to it.')
    this.isDev = isDev
    this.list = h('div', {})
    this.form = h('div', { data: { needs: 'operate' } })
    this.apps = h('div', {})
    this.environment = select([['production', 'production'], ['development', 'development']], 'production')
    this.storage = select([['newest', STORAGE.newest], ['none', STORAGE.none]], 'newest')
    this.add(this.list, this.form)
    if (!isDev) this.add(box('Apps', this.apps))
  }

  async update() {
    const [{ apps }, page] = await Promise.all([this.isDev ? devApps() : get('/apps'), this.#page()])
    this.channels = page.channels
    this.next = page.next
    this.#showChannels()
    fill(this.apps, table('Apps', ['Topic', 'Channels', ''], apps.map((app) => {
      const isOn = app.broadcast === 'on'
      return [plain(app.topic), isOn ? 'permitted' : 'off', button(isOn ? 'Switch off' : 'Permit',
        () => this.#permit(app.topic, !isOn), { class: `small quiet ${isOn ? 'danger' : ''}`,
          data: { needs: 'trust' }, 'aria-label': `${isOn ? 'Switch off' : 'Permit'} channels of ${app.topic}` })]
    })))
    if (this.form.contains(document.activeElement)) return
    const topics = apps.filter((app) => app.broadcast === 'on').map(({ topic }) => [topic, topic])
    this.topic = topics.length > 0 ? select(topics, topics[0][0]) : null
    fill(this.form, this.topic
      ? inlineForm(() => this.#create(), 'Create', field('New channel of', this.topic),
        field('Environment', this.environment), field('Keeps', this.storage))
      : h('p', { class: 'muted' }, 'No app may have channels yet.'))
  }

  #page(after) { return get(this.isDev ? '/channels' : `/channels${query({ limit: PAGE, after })}`) }

  #showChannels() {
    fill(this.list, table('Channels', COLUMNS, this.channels.map((one) => [
      [h('code', {}, literal(one.channel)), ' ', copyButton(one.channel, `the id ${one.channel}`)],
      plain(one.topic), one.environment, STORAGE[one.storage], when(one.created ?? one.createdMilliseconds),
      ...[one.subscriptions, one.published, one.delivered].map((number) => `${number ?? ''}`),
      button('Delete', () => this.#delete(one.channel), { class: 'small quiet danger', data: { needs: 'operate' },
        'aria-label': `Delete ${one.channel}` }),
    ])), this.next && button('Show more', () => this.#more()))
  }

  async #more() {
    await this.attempt(async () => {
      const page = await this.#page(this.next)
      this.channels.push(...page.channels)
      this.next = page.next
      this.#showChannels()
    })
  }

  async #create() {
    await this.attempt(async () => {
      const { channel } = await post('/channels',
        { topic: this.topic.value, environment: this.environment.value, storage: this.storage.value })
      toast(`Created ${channel}.`)
      await this.update()
    })
  }

  async #delete(channel) {
    if (!confirm(`Delete ${channel}? Its subscriptions end, and it cannot be restored.`)) return
    const done = await this.attempt(() => remove(`/channels/${segment(channel)}`))
    if (done) { toast(`Deleted ${channel}.`); this.load() }
  }

  async #permit(topic, isOn) {
    if (!isOn && !confirm(`Switch channels off for ${topic}? All its channels are deleted for good.`)) return
    const body = isOn ? { broadcast: true } : { broadcast: false, delete_channels: true }
    const done = await this.attempt(() => patch(`/apps/${segment(topic)}`, body))
    if (done) this.load()
  }
}
