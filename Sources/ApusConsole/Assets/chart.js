// Line charts drawn as SVG, each with its numbers in a table for screen readers and for copying.

import { atFrame, fill, h, svg } from '/assets/dom.js'
import { table, when } from '/assets/pane.js'
import { clock, zone } from '/assets/text.js'

const HEIGHT = 150
const EDGE = { left: 46, right: 10, top: 8, bottom: 20 }
const TABLE_ROWS = 60
const HALF_MARK = 18
/** Pixels: more than any letter or digit takes. */
const LETTER = 7

/** Round numbers from zero to above the largest: 0, 5, 10. */
export function ticks(largest) {
  const rough = Math.max(largest, 1) / 3
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough)
  const count = Math.max(1, Math.ceil(Math.max(largest, 1) / step))
  return Array.from({ length: count + 1 }, (_, index) => index * step)
}

/** Whole minutes or hours between two times, at most six. */
function marks(from, to) {
  const minute = 60_000
  const step = [1, 2, 5, 10, 30, 60, 120, 240, 360].map((minutes) => minutes * minute)
    .find((one) => (to - from) / one <= 6) ?? 720 * minute
  // In this browser's time zone, so that marks are at its full hours.
  const shift = new Date(to).getTimezoneOffset() * minute
  const first = Math.ceil((from - shift) / step) * step + shift
  const found = []
  for (let time = first; time <= to; time += step) found.push(time)
  return found
}

/** The text of a mark, with its zone if it is not that of the right edge. */
const hour = (time, to) =>
  `${clock(time, { now: time }).slice(0, 5)}${zone(time) === zone(to) ? '' : ` ${zone(time)}`}`

/** A chart with one or more lines. `series`: `{ name, key }` of the samples' members; `format(value)` returns text. */
export class Chart {
  #samples = []
  #span = [0, 1]
  #at = null

  constructor({ title, series, format = String }) {
    Object.assign(this, { title, series, format })
    this.legend = h('p', { class: 'legend' })
    this.drawing = svg('svg', { class: 'chart', 'aria-hidden': 'true' })
    this.numbers = h('details', { ontoggle: () => this.#drawNumbers() }, h('summary', {}, 'Numbers'))
    this.element = h('figure', { class: 'box', role: 'group', 'aria-label': title },
      h('figcaption', {}, h('h3', {}, title), this.legend), this.drawing, this.numbers)
    this.drawing.addEventListener('pointermove', (event) => this.#point(event.offsetX))
    this.drawing.addEventListener('pointerleave', () => this.#point(null))
    new ResizeObserver(() => atFrame(this.draw)).observe(this.element)
  }

  /** `span`: the times of the left and right edge, in Unix milliseconds. */
  set(samples, span) {
    this.#samples = samples
    this.#span = span
    this.#drawNumbers()
    atFrame(this.draw)
  }

  #point(x) {
    this.#at = x
    atFrame(this.draw)
  }

  draw = () => {
    const width = this.element.clientWidth - 32
    if (width < 80) return
    const [from, to] = this.#span
    const values = this.#samples.flatMap((sample) => this.series.map(({ key }) => sample[key] ?? 0))
    const lines = ticks(values.reduce((one, other) => Math.max(one, other), 0))
    const right = width - EDGE.right
    const bottom = HEIGHT - EDGE.bottom
    const x = (time) => EDGE.left + (time - from) / (to - from) * (right - EDGE.left)
    const y = (value) => bottom - value / lines.at(-1) * (bottom - EDGE.top)
    this.drawing.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`)
    this.drawing.setAttribute('width', width)
    this.drawing.setAttribute('height', HEIGHT)
    const zoneEnd = Math.max(EDGE.left, zone(to).length * LETTER)
    const pointed = this.#pointed(from + ((this.#at ?? 0) - EDGE.left) / (right - EDGE.left) * (to - from))
    fill(this.drawing,
      lines.map((value) => [svg('line', { class: 'grid', x1: EDGE.left, x2: right, y1: y(value), y2: y(value) }),
        svg('text', { x: EDGE.left - 6, y: y(value) + 4, 'text-anchor': 'end' }, this.format(value))]),
      svg('text', { x: 0, y: HEIGHT - 4 }, zone(to)),
      // None where it would cover the zone or be cut off.
      marks(from, to).filter((time) => x(time) - HALF_MARK > zoneEnd && x(time) + HALF_MARK < width)
        .map((time) => svg('text', { x: x(time), y: HEIGHT - 4, 'text-anchor': 'middle' }, hour(time, to))),
      this.series.map(({ key }, index) => svg('path', { class: `line line-${index}`, d: this.#path(key, x, y) })),
      pointed && svg('line', { class: 'pointer', x1: x(pointed.milliseconds), x2: x(pointed.milliseconds),
        y1: EDGE.top, y2: bottom }))
    this.#drawLegend(pointed ?? this.#samples.at(-1), Boolean(pointed))
  }

  #pointed(time) {
    if (this.#at == null || this.#samples.length === 0) return null
    return this.#samples.reduce((best, one) =>
      Math.abs(one.milliseconds - time) < Math.abs(best.milliseconds - time) ? one : best)
  }

  /** The path of a line. It breaks where a sample is missing or has no value. */
  #path(key, x, y) {
    let text = ''
    let before = null
    for (const sample of this.#samples) {
      const value = sample[key]
      if (value == null) { before = null; continue }
      const joins = before != null && sample.milliseconds - before < 3.5 * this.step
      text += `${joins ? 'L' : 'M'}${x(sample.milliseconds).toFixed(1)} ${y(value).toFixed(1)}`
      // A single point would not be visible.
      if (!joins) text += 'h.1'
      before = sample.milliseconds
    }
    return text
  }

  get step() {
    const samples = this.#samples
    return samples.length > 1 ? (samples.at(-1).milliseconds - samples[0].milliseconds) / (samples.length - 1) : 10_000
  }

  #drawLegend(sample, isPointed) {
    fill(this.legend, this.series.map(({ name, key }, index) => h('span', { class: `key line-${index}` }, name, ' ',
      h('strong', {}, sample?.[key] == null ? '–' : this.format(sample[key])))),
      isPointed && when(sample.milliseconds, 'short'))
  }

  #drawNumbers() {
    if (!this.numbers.open) return
    const every = Math.ceil(this.#samples.length / TABLE_ROWS)
    const shown = this.#samples.filter((_, index) => (this.#samples.length - 1 - index) % every === 0).reverse()
    this.numbers.lastElementChild.matches('summary') || this.numbers.lastElementChild.remove()
    this.numbers.append(table(this.title, ['Time', ...this.series.map(({ name }) => name)], shown.map((sample) => [
      when(sample.milliseconds, 'short'), ...this.series.map(({ key }) =>
        (sample[key] == null ? '–' : this.format(sample[key])))]), { empty: 'No measurements yet.' }))
  }
}
