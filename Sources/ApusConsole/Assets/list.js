// A virtual list: only visible rows are elements, so that ten thousand rows cost as much as thirty.

import { atFrame, h } from '/assets/dom.js'

const BESIDE = 8 // Rows drawn above and below the visible ones, for fast scrolling.

/**
 * A list box of rows of one height (`--row` of the style sheet, in pixels).
 *
 * `source`: `count`, `key(index)` (a stable number or text for a row), `index(key)` and `row(index)`, which makes a
 * row's element. `onopen(key)`: the user chose a row. `onmove(key)`: the user moved to it. `onend()`: the end becomes
 * visible, and more rows may exist.
 */
export class VirtualList {
  #drawn = new Map()
  #count = 0

  constructor({ label, source, onopen, onmove = () => {}, onend = () => {}, onscroll = () => {} }) {
    Object.assign(this, { source, onopen, onmove, onend, onscroll, active: null })
    this.sizer = h('div', { class: 'sizer', role: 'presentation' })
    this.element = h('div', {
      class: 'scroller', role: 'listbox', tabindex: '0', 'aria-label': label,
      onscroll: () => { this.#draw(); this.onscroll() },
      onclick: (event) => this.#click(event),
      onkeydown: (event) => this.#key(event),
    }, this.sizer)
    new ResizeObserver(() => { this.#measure(); this.draw() }).observe(this.element)
    this.#measure()
  }

  /** Styles apply only inside the document: while another view is shown, the last height is kept. */
  #measure() {
    const height = parseFloat(getComputedStyle(this.element).getPropertyValue('--row')) || this.height || 60
    if (height === this.height) return
    this.height = height
    for (const element of this.#drawn.values()) delete element.dataset.at
  }

  drawNow = () => this.#draw()

  get atTop() { return this.element.scrollTop < this.height / 2 }

  /** Redraws once at the next frame. */
  draw() { atFrame(this.drawNow) }

  /** Rows were inserted above: visible rows keep their position, unless the list is scrolled to its top. */
  grewAbove(count) {
    if (this.atTop || count === 0) return
    this.#resize()
    this.element.scrollTop += count * this.height
  }

  /** Discards a row's element, so that it is made again at the next redraw. */
  invalidate(key) {
    this.#drawn.get(key)?.remove()
    this.#drawn.delete(key)
    this.draw()
  }

  /** All rows have changed. */
  reset() {
    for (const element of this.#drawn.values()) element.remove()
    this.#drawn.clear()
    this.active = null
    this.element.scrollTop = 0
    this.draw()
  }

  #resize() {
    this.#count = this.source.count
    this.sizer.style.height = `${this.#count * this.height}px`
  }

  #draw() {
    if (!this.element.isConnected || this.element.clientHeight === 0) return
    this.#measure()
    this.#resize()
    const top = this.element.scrollTop
    const first = Math.max(0, Math.floor(top / this.height) - BESIDE)
    const last = Math.min(this.#count, Math.ceil((top + this.element.clientHeight) / this.height) + BESIDE)
    const wanted = new Set()
    for (let index = first; index < last; index += 1) this.#place(index, wanted)
    // The active row exists even if it is not visible: assistive technology refers to its element.
    const active = this.active == null ? -1 : this.source.index(this.active)
    if (active >= 0 && (active < first || active >= last)) this.#place(active, wanted)
    for (const [key, element] of this.#drawn) {
      if (!wanted.has(key)) { element.remove(); this.#drawn.delete(key) }
    }
    if (active >= 0) this.element.setAttribute('aria-activedescendant', `row-${this.active}`)
    else this.element.removeAttribute('aria-activedescendant')
    if (last >= this.#count - BESIDE) this.onend()
  }

  #place(index, wanted) {
    const key = this.source.key(index)
    let element = this.#drawn.get(key)
    if (!element) {
      element = this.source.row(index)
      element.id = `row-${key}`
      element.classList.add('row')
      element.setAttribute('role', 'option')
      this.#drawn.set(key, element)
      this.sizer.append(element)
    }
    wanted.add(key)
    if (element.dataset.at !== String(index)) {
      element.dataset.at = index
      element.style.transform = `translateY(${index * this.height}px)`
      element.setAttribute('aria-posinset', index + 1)
    }
    element.setAttribute('aria-setsize', this.#count)
    element.setAttribute('aria-selected', key === this.active)
  }

  #click(event) {
    const row = event.target.closest('.row')
    if (!row) return
    this.moveTo(Number(row.dataset.at))
    this.onopen(this.active)
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.height) - 1)
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }
    if (event.key in steps) this.step(steps[event.key])
    else if (event.key === 'Enter' && this.active != null) this.onopen(this.active)
    else return
    event.preventDefault()
  }

  /** Moves the active row by the given number of rows; without an active row, to the first. */
  step(by) {
    if (this.source.count === 0) return
    const now = this.active == null ? -1 : this.source.index(this.active)
    const next = now < 0 ? 0 : Math.min(this.source.count - 1, Math.max(0, now + by))
    this.moveTo(next)
    this.onmove(this.active)
  }

  moveTo(index) {
    this.active = this.source.key(index)
    const top = index * this.height
    const { scrollTop, clientHeight } = this.element
    this.#resize()
    if (top < scrollTop) this.element.scrollTop = top
    else if (top + this.height > scrollTop + clientHeight) this.element.scrollTop = top + this.height - clientHeight
    this.#draw()
  }
}
