// The inbox: the list of pushes next to the open one.

import { remove } from '/assets/api.js'
import { button, fill, h, toast } from '/assets/dom.js'
import { on } from '/assets/events.js'
import { VirtualList } from '/assets/list.js'
import { when } from '/assets/pane.js'
import { fetchPush, pushDetail } from '/assets/push.js'
import { Pushes } from '/assets/pushes.js'
import { count, plain } from '/assets/text.js'

const narrow = matchMedia('(max-width: 760px)')

const VERDICTS = [['', 'All'], ['refused', 'Rejected'], ['violations', 'Violations']]

function row(line) {
  const delivered = line.recipients > 0 || /^(Delivered|Accepted)/.test(line.state)
  const waits = /^Stored/.test(line.state)
  const facts = [
    line.type || 'no type', line.topic, line.device,
    line.recipients != null && `broadcast to ${line.recipients} ${line.recipients === 1 ? 'device' : 'devices'}`,
    delivered ? line.recipients == null && 'delivered' : waits ? 'waits' : /^Discarded - (.*)/.exec(line.state)?.[1].toLowerCase(),
  ].filter(Boolean)
  return h(
    'div', { class: `line ${line.refused ? 'refused' : ''}` },
    h('span', { class: `dot ${line.refused ? 'bad' : delivered ? 'good' : waits ? 'waiting' : ''}` }),
    h('p', {}, h('span', { class: `title ${line.isText ? '' : 'is-kind'}` }, plain(line.title)),
      when(line.time, 'short')),
    h('p', { class: `text ${line.isText ? '' : 'is-data'}` }, line.body ? plain(line.body) : ''),
    h('p', { class: 'facts-line' }, h('span', {}, facts.map((fact, index) => [index > 0 && ' · ', plain(fact)])),
      line.dropped && h('span', { class: 'mark warn' }, 'dropped by the device'),
      line.fault && h('span', { class: 'mark armed' }, 'fault'),
      line.violations > 0 && h('span', { class: 'mark warn' },
        `${line.violations} ${line.violations === 1 ? 'violation' : 'violations'}`),
      line.refused && h('span', { class: 'mark bad' },
        `${line.status || ''} ${line.reason || (line.status ? '' : 'no response')}`.trim())))
}

export class Inbox {
  title = 'Inbox'
  #open = null
  #unseen = 0
  #text = ''
  #verdict = ''

  constructor({ go, compose }) {
    this.go = go
    this.compose = compose
    this.pushes = new Pushes({
      changed: (change) => this.#changed(change),
      updated: (number) => this.#updated(number),
      failed: (problem) => {
        this.#note(problem.message)
        this.empty.hidden = this.pushes.count > 0
        toast(problem.message)
      },
    })
    this.list = new VirtualList({
      label: 'Pushes, newest first',
      source: {
        pushes: this.pushes,
        get count() { return this.pushes.count },
        key: (index) => this.pushes.at(index).number,
        index: (number) => this.pushes.index(number),
        row: (index) => row(this.pushes.at(index)),
      },
      onopen: (number) => this.#opened(number),
      onmove: (number) => { if (this.#open != null && !narrow.matches) go(`/inbox/${number}`, { replace: true }) },
      onend: () => { if (this.pushes.count && !this.pushes.isComplete) this.pushes.more() },
      onscroll: () => { if (this.list.atTop && this.#unseen) this.#seen() },
    })
    this.element = this.#build()
    on('update', (push) => { if (push?.number === this.#open) this.#refetch() })
    on('cleared', (value) => { if (this.#open != null && !value?.lost) go('/inbox') })
    this.pushes.search('')
  }

  #build() {
    this.search = h('input', {
      type: 'search', id: 'search', placeholder: 'Search  ( / )', 'aria-label': 'Search pushes', autocomplete: 'off',
      spellcheck: 'false', oninput: () => this.#searchSoon(),
      onkeydown: (event) => {
        if (event.key === 'Enter' || event.key === 'ArrowDown') {
          event.preventDefault()
          this.list.element.focus()
          if (this.list.active == null) this.list.step(1)
        }
      },
    })
    this.choices = h('div', { class: 'segments', role: 'group', 'aria-label': 'Which pushes' },
      VERDICTS.map(([value, text]) => button(text, () => this.#choose(value),
        { data: { value }, 'aria-pressed': value === '' })))
    this.total = h('span', { class: 'muted total', role: 'status' })
    this.fresh = button('', () => { this.list.element.scrollTop = 0; this.#seen() }, { class: 'fresh', hidden: true })
    this.empty = h('div', { class: 'empty', hidden: true })
    this.detail = h('article', { class: 'detail', 'aria-labelledby': 'push-title', hidden: true })
    this.blank = h('div', { class: 'blank' }, h('p', {}, 'Choose a push to see what happened to it.'),
      h('p', { class: 'muted' }, h('kbd', {}, 'j'), ' ', h('kbd', {}, 'k'), ' move, ', h('kbd', {}, 'Enter'),
        ' opens, ',
        h('kbd', {}, '?'), ' lists all keys.'))
    return h('section', { class: 'inbox', 'aria-label': 'Inbox' },
      h('div', { class: 'list-pane' },
        h('header', { class: 'bar' }, this.search,
          h('div', { class: 'bar-row' }, this.choices, this.total,
            button('Clear', () => this.#clear(), { class: 'small quiet', title: 'Delete all pushes' }))),
        this.fresh, this.empty, this.list.element),
      h('div', { class: 'detail-pane' }, this.blank, this.detail))
  }

  show([number]) {
    const wanted = /^\d{1,15}$/.test(number ?? '') ? Number(number) : null
    this.element.classList.toggle('has-open', wanted != null)
    if (this.scrollTop) this.list.element.scrollTop = this.scrollTop
    this.list.draw()
    if (wanted === this.#open) return
    this.#open = wanted
    this.blank.hidden = wanted != null
    this.detail.hidden = wanted == null
    if (wanted == null) return fill(this.detail)
    const index = this.pushes.index(wanted)
    if (index >= 0 && this.list.active !== wanted) this.list.moveTo(index)
    return this.#fetch(wanted)
  }

  hide() { this.scrollTop = this.list.element.scrollTop }

  async #fetch(number) {
    this.abort?.abort()
    this.abort = new AbortController()
    try {
      const push = await fetchPush(number, { signal: this.abort.signal })
      if (number !== this.#open) return
      this.push = push
      const { scrollTop } = this.detail.parentElement
      const same = this.detail.dataset.number === String(number)
      fill(this.detail, pushDetail(push, { onback: () => this.back(), onagain: this.compose }))
      this.detail.dataset.number = number
      this.detail.parentElement.scrollTop = same ? scrollTop : 0
      if (this.focusDetail) { this.focusDetail = false; this.detail.querySelector('h2').focus() }
    } catch (problem) {
      if (problem.name === 'AbortError' || number !== this.#open) return
      fill(this.detail, h('header', { class: 'detail-head' },
        button('‹ Back', () => this.back(), { class: 'back quiet' }),
        h('h2', { id: 'push-title', tabindex: '-1' }, problem.status === 404
          ? 'This push was deleted' : 'This push cannot be shown')),
      h('p', { class: 'callout bad' }, problem.message))
    }
  }

  #refetch() {
    clearTimeout(this.later)
    this.later = setTimeout(() => { if (this.#open != null) this.#fetch(this.#open) }, 60)
  }

  #opened(number) {
    this.focusDetail = true
    if (number === this.#open) { this.focusDetail = false; this.detail.querySelector('h2')?.focus() }
    this.go(`/inbox/${number}`)
  }

  /** Escape leaves the search, then the push. */
  back() {
    if (this.#open == null) return false
    this.go('/inbox')
    this.list.element.focus()
    return true
  }

  key(key) {
    if (key === 'j' || key === 'k') {
      this.list.element.focus({ preventScroll: true })
      this.list.step(key === 'j' ? 1 : -1)
    } else if (key === 'Enter' && this.list.active != null) this.#opened(this.list.active)
    else if (key === '/') { this.search.focus(); this.search.select() }
    else if (key === 'y') this.detail.querySelector('#copy-curl')?.click()
    else return false
    return true
  }

  #searchSoon() {
    clearTimeout(this.soon)
    this.soon = setTimeout(() => { this.#text = this.search.value; this.#searchNow() }, 150)
  }

  #choose(value) {
    this.#verdict = value
    for (const choice of this.choices.children) choice.setAttribute('aria-pressed', choice.dataset.value === value)
    this.#searchNow()
  }

  #searchNow() {
    this.#seen()
    this.pushes.search(`${this.#text}${this.#verdict ? ` verdict:${this.#verdict}` : ''}`)
  }

  #changed({ above, reset }) {
    if (reset) this.list.reset()
    if (above && !this.list.atTop) {
      this.#unseen += above
      this.fresh.textContent = `${count(this.#unseen)} new`
      this.fresh.hidden = false
    }
    this.list.grewAbove(above)
    this.list.draw()
    const number = this.pushes.total ?? this.pushes.count
    const more = this.pushes.isFiltered && this.pushes.hasMore ? '+' : ''
    this.total.textContent = number === 1 && !more ? '1 push' : `${count(number)}${more} pushes`
    if (!reset) this.#note(this.pushes.isFiltered ? 'No push matches.' : null)
    this.empty.hidden = reset || this.pushes.count > 0
  }

  #note(text) {
    if (text) return fill(this.empty, h('p', {}, text))
    return fill(this.empty, h('p', {}, 'No push yet.'),
      h('p', { class: 'muted' }, 'Point your provider at the addresses under ', h('a', { href: '#/status' }, 'Status'),
        ', or ', h('a', { href: '#/compose' }, 'send one from here'), '.'))
  }

  #updated(number) { this.list.invalidate(number) }

  #seen() { this.#unseen = 0; this.fresh.hidden = true }

  async #clear() {
    if (!confirm('Delete all pushes? Devices and faults are kept.')) return
    try {
      await remove('/pushes')
      this.go('/inbox')
      this.pushes.search(this.pushes.text)
    } catch (problem) { toast(problem.message) }
  }
}
