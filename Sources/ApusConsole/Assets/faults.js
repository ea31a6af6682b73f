// Faults: rules that select pushes and the effect on them.

import { get, post, remove } from '/assets/api.js'
import { button, field, fill, h, select, toast } from '/assets/dom.js'
import { EFFECTS, REASONS, effectWords } from '/assets/effects.js'
import { on } from '/assets/events.js'
import { count, literal } from '/assets/text.js'

const FIELDS = ['topic', 'device', 'token', 'pushType', 'title', 'subtitle', 'body', 'collapseID', 'apnsID',
  'environment', 'interface', 'payload.aps.']
const TESTS = [['equals', 'is'], ['contains', 'contains'], ['startsWith', 'begins with'],
  ['regex', 'matches the pattern']]
const WHEN = [['always', 'each time'], ['nth', 'only the n-th'], ['every', 'every n-th'], ['rate', 'a share of them']]

function matchWords(match) {
  const entries = Object.entries(match ?? {})
  if (!entries.length) return 'any push'
  return entries.map(([name, test], index) => {
    const [verb, value] = test && typeof test === 'object' && !Array.isArray(test)
      ? Object.entries(test)[0] ?? ['equals', ''] : ['equals', test]
    return [index > 0 && ', ', h('code', {}, literal(name)), ` ${TESTS.find(([key]) => key === verb)?.[1] ?? verb} `,
      literal(typeof value === 'string' ? value : JSON.stringify(value))]
  })
}

const ENDINGS = { one: 'st', two: 'nd', few: 'rd', other: 'th' }
const ordinal = (number) => number + ENDINGS[new Intl.PluralRules('en', { type: 'ordinal' }).select(number)]

function whenWords(rule) {
  const words = rule.nth ? `only the ${ordinal(rule.nth)}` : rule.every ? `every ${ordinal(rule.every)}`
    : rule.rate != null ? `${+(rule.rate * 100).toFixed(2)} % (seed ${rule.seed ?? 1})` : 'each time'
  return rule.times ? `${words}, ${rule.times} ${rule.times === 1 ? 'time' : 'times'} at most` : words
}

export class Faults {
  constructor() {
    this.rules = h('div', {})
    this.name = h('input', { autocomplete: 'off', placeholder: 'optional', maxlength: '100' })
    this.clauses = h('div', { class: 'clauses' })
    this.when = select(WHEN, 'always', { onchange: () => this.#drawWhen() })
    this.whenFields = h('div', { class: 'fields' })
    this.times = h('input', { type: 'number', min: '1', placeholder: 'no limit' })
    this.kind = select(Object.entries(EFFECTS).map(([key, { label }]) => [key, label]), 'respond',
      { onchange: () => this.#drawEffect() })
    this.effect = h('div', { class: 'fields' })
    this.fault = h('p', { class: 'callout bad', hidden: true, role: 'alert' })
    this.matching = h('fieldset', {}, h('legend', {}, 'Which pushes'), this.clauses,
      h('div', { class: 'tools' }, button('Add a condition', () => this.#clause(), { class: 'small' }),
        h('small', { class: 'muted hint' }, 'No condition: any push.')))
    this.timing = h('fieldset', {}, h('legend', {}, 'When'),
      h('div', { class: 'fields' }, field('Of matching pushes', this.when),
      field('At most (times)', this.times)), this.whenFields)
    this.element = h('section', { class: 'view', 'aria-label': 'Faults' },
      h('h1', {}, 'Faults'),
      h('section', { class: 'box' }, h('h2', {}, 'Armed'), this.rules),
      h('form', { class: 'box', 'aria-label': 'Arm a fault', novalidate: true,
        onsubmit: (event) => { event.preventDefault(); this.#arm() } },
        h('h2', {}, 'Arm a fault'),
        h('fieldset', {}, h('legend', {}, 'Effect'),
          h('div', { class: 'fields' }, field('Effect', this.kind), field('Name', this.name)), this.effect),
        this.matching, this.timing, this.fault,
        h('div', { class: 'actions' }, h('button', { type: 'submit', class: 'primary' }, 'Arm')),
        h('datalist', { id: 'reasons' },
          REASONS.map(([status, reason]) => h('option', { value: reason }, String(status)))),
        h('datalist', { id: 'match-fields' }, FIELDS.map((name) => h('option', { value: name })))))
    this.#drawEffect()
    this.#drawWhen()
    on('fault', () => this.#soon())
    on('push', (push) => { if (!push?.verdict || push.verdict.fault) this.#soon() })
  }

  show() { this.#load() }

  #soon() {
    if (this.element.isConnected) this.timer ??= setTimeout(() => { this.timer = null; this.#load() }, 150)
  }

  async #load() {
    try {
      const { faults = [] } = await get('/faults')
      fill(this.rules, faults.length === 0 ? h('p', { class: 'muted' }, 'No faults armed.') : [
        h('table', { class: 'rule-list' },
          h('thead', {}, h('tr', {}, ['Rule', 'Effect', 'Pushes', 'When', 'Applied'].map(
          (text) => h('th', { scope: 'col' }, text)), h('td', {}))),
        h('tbody', {}, faults.map((rule) => h('tr', { class: rule.spent ? 'spent' : '' },
          h('td', {}, literal(rule.name)), h('td', {}, effectWords(rule.effect)), h('td', {}, matchWords(rule.match)),
          h('td', {}, whenWords(rule)),
          h('td', {}, `${count(rule.struck)} of ${count(rule.matched)}`,
            h('span', { class: 'only-narrow' }, ' applied')),
          h('td', {}, button('Disarm', () => this.#disarm(rule.id),
            { class: 'small', 'aria-label': `Disarm ${rule.name}` })))))),
        h('div', {}, button('Disarm all', () => this.#disarm(null), { class: 'small danger' }))])
    } catch (problem) {
      fill(this.rules, h('p', { class: 'callout bad' }, problem.message))
    }
  }

  #clause() {
    const name = h('input',
      { 'aria-label': 'Field', list: 'match-fields', placeholder: 'topic', autocomplete: 'off', spellcheck: 'false' })
    const row = h('div', { class: 'clause' }, name, select(TESTS, 'equals', { 'aria-label': 'Test' }),
      h('input', { 'aria-label': 'Value', autocomplete: 'off', spellcheck: 'false' }),
      button('Remove', () => row.remove(), { class: 'quiet', 'aria-label': 'Remove the condition' }))
    this.clauses.append(row)
    name.focus()
  }

  #drawWhen() {
    this.number = h('input', { type: 'number', min: '1', value: '3' })
    this.rate = h('input', { type: 'number', min: '0', max: '1', step: 'any', value: '0.1' })
    this.seed = h('input', { type: 'number', min: '0', value: '1' })
    fill(this.whenFields, this.when.value === 'rate'
      ? [field('Share, 0 to 1', this.rate), field('Seed', this.seed, 'The same seed selects the same pushes.')]
      : this.when.value === 'always' ? null : field('n', this.number))
    this.whenFields.hidden = this.when.value === 'always'
  }

  #drawEffect() {
    const { fields, note, isOfConnections } = EFFECTS[this.kind.value]
    this.inputs = fields.map((one) => ({ ...one, control: this.#control(one) }))
    fill(this.effect, this.inputs.map(({ label, control, hint }) => field(label, control, hint)),
      note && h('p', { class: 'muted broad' }, note))
    this.matching.hidden = Boolean(isOfConnections)
    this.timing.hidden = Boolean(isOfConnections)
  }

  #control({ kind, options, value, placeholder, list }) {
    if (kind === 'choice') return select(options, value)
    if (kind === 'check') return select([['', 'no'], ['true', 'yes']], '')
    return h('input', { type: kind ?? 'text', value, placeholder, list, autocomplete: 'off', spellcheck: 'false' })
  }

  #rule() {
    const effect = { type: this.kind.value }
    for (const { key, kind, control } of this.inputs) {
      if (control.value === '') continue
      effect[key] = kind === 'number' ? Number(control.value) : kind === 'check' ? true : control.value
    }
    const rule = { effect }
    if (this.name.value.trim()) rule.name = this.name.value.trim()
    if (EFFECTS[effect.type].isOfConnections) return rule
    const match = {}
    for (const row of this.clauses.children) {
      const [name, test, value] = row.querySelectorAll('input, select')
      if (!name.value.trim()) continue
      match[name.value.trim()] = test.value === 'equals' ? value.value : { [test.value]: value.value }
    }
    if (Object.keys(match).length) rule.match = match
    if (this.when.value === 'rate') Object.assign(rule,
      { rate: Number(this.rate.value), seed: Number(this.seed.value || 1) })
    else if (this.when.value !== 'always') rule[this.when.value] = Number(this.number.value)
    if (this.times.value) rule.times = Number(this.times.value)
    return rule
  }

  async #arm() {
    try {
      await post('/faults', this.#rule())
      this.fault.hidden = true
      this.name.value = ''
      toast('Armed.')
    } catch (problem) {
      this.fault.hidden = false
      fill(this.fault, problem.message)
    }
    this.#load()
  }

  async #disarm(id) {
    const path = id == null ? '/faults' : `/faults/${encodeURIComponent(id)}`
    try { await remove(path) } catch (problem) { toast(problem.message) }
    this.#load()
  }
}
