// The Live Activities of a device: a card for each, which is updated in place, and a list with their history.

import { remove } from '/assets/api.js'
import { button, copyButton, fill, h, toast } from '/assets/dom.js'
import { when } from '/assets/pane.js'
import { appName, stateRows, stateTable, tile } from '/assets/phone.js'
import { oneLine, plain } from '/assets/text.js'

const LOOKS = { active: 'good', stale: 'warn' }
const MARKS = { stale: 'Outdated', ended: 'Ended' }

/** The card on the lock screen. Its element stays the same, whatever changes in it. */
class Card {
  constructor(id) {
    this.element = h('article', { class: 'card activity-card', data: { activity: id } })
  }

  draw({ topic, attributesType, attributes, contentState, state }) {
    this.element.dataset.state = state
    fill(this.element,
      h('header', {}, tile(topic), h('span', { class: 'app' }, appName(topic)),
        MARKS[state] && h('span', { class: 'level' }, MARKS[state])),
      h('p', { class: 'activity-event', dir: 'auto' }, oneLine(attributesType, 80)),
      stateTable([...stateRows(contentState), ...stateRows(attributes)]))
  }
}

/** The line in the list below. What is unfolded, or has the focus, stays so. */
class Line {
  #drawn = ''
  #token = null

  constructor(id) {
    this.id = id
    this.head = h('div', { class: 'card-head' })
    this.token = h('div', { class: 'tools' })
    this.facts = h('p', { class: 'muted' })
    this.count = h('summary', {})
    this.history = h('ol', { class: 'way' })
    this.element = h('li', { class: 'box', data: { activity: id } }, this.head, this.facts, this.token,
      h('details', {}, this.count, this.history))
  }

  draw(activity, device) {
    const drawn = JSON.stringify(activity)
    if (drawn === this.#drawn) return
    this.#drawn = drawn
    const { state, attributesType, relevance, history, environment, channel } = activity
    fill(this.head, h('h4', {}, plain(attributesType)),
      h('span', { class: `badge ${LOOKS[state] ?? ''}` }, state))
    const until = { active: ['stale', activity.staleDate], ended: ['leaves the screen', activity.dismissedAtSeconds] }
    const [what, seconds] = until[state] ?? []
    fill(this.facts, `No. ${this.id}, ${environment ?? ''}, relevance ${relevance ?? 0}`,
      seconds != null && [`, ${what} `, when(seconds * 1000, 'short')],
      channel != null && [', channel ', plain(channel)])
    if (activity.token !== this.#token) {
      this.#token = activity.token
      fill(this.token, activity.token
        && [h('span', { class: 'muted' }, 'Its token'),
          copyButton(activity.token, `the token of Live Activity ${this.id} of ${device}`)])
    }
    this.count.textContent = `History (${history.length})`
    fill(this.history, history.toReversed().map(entry))
  }
}

function entry({ kind, atSeconds, contentState, title, body, reason }) {
  const look = kind === 'dropped' ? 'bad' : kind === 'started' || kind === 'updated' ? 'good' : ''
  const alert = [title, body].filter(Boolean).join(': ')
  return h('li', { class: look },
    h('span', { class: 'state' }, kind), when(atSeconds * 1000, 'short'),
    reason && h('small', { class: 'cause' }, plain(reason)),
    alert && h('small', { class: 'cause' }, 'Alert: ', plain(alert)),
    contentState && h('small', { class: 'cause' }, plain(JSON.stringify(contentState))))
}

/** Brings the children of an element into this order, and moves only what is not in its place. */
function arrange(parent, children) {
  for (const child of [...parent.children]) if (!children.includes(child)) child.remove()
  children.forEach((child, index) => {
    if (parent.children[index] !== child) parent.insertBefore(child, parent.children[index] ?? null)
  })
}

export class Activities {
  #device = null
  #cards = new Map()
  #lines = new Map()

  constructor({ changed }) {
    this.changed = changed
    this.list = h('ul', { class: 'activity-list', 'aria-label': 'Live Activities' })
    this.element = h('section', { hidden: true },
      h('div', { class: 'card-head' }, h('h3', {}, 'Live Activities'),
        button('Dismiss all', () => this.#dismiss(), { class: 'small' })),
      this.list)
  }

  /** Draws the list. Returns the cards for the lock screen, in their order. */
  draw(device, activities) {
    if (device !== this.#device) {
      this.#device = device
      this.#cards.clear()
      this.#lines.clear()
    }
    this.element.hidden = activities.length === 0
    const onScreen = activities.filter(({ state }) => state !== 'dismissed')
    const cards = this.#update(this.#cards, onScreen, Card)
    arrange(this.list, this.#update(this.#lines, activities, Line))
    return cards
  }

  #update(known, activities, Kind) {
    for (const id of [...known.keys()]) if (!activities.some((one) => one.id === id)) known.delete(id)
    return activities.map((activity) => {
      if (!known.has(activity.id)) known.set(activity.id, new Kind(activity.id))
      const one = known.get(activity.id)
      one.draw(activity, this.#device)
      return one.element
    })
  }

  async #dismiss() {
    try { await remove(`/devices/${encodeURIComponent(this.#device)}/activities`) } catch (problem) {
      toast(problem.message)
    }
    this.changed()
  }
}
