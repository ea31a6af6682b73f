// Builds the page's elements. Text is always text: the page never passes a string to the browser as markup, and its
// content security policy forbids it.

const SVG = 'http://www.w3.org/2000/svg'

/**
 * Makes an element.
 *
 * `props`: `class`, `on…` (listeners), `data` (an object), properties of the element that are not strings (`checked`,
 * `hidden`, `value`), and attributes. `null`, `undefined` and `false` leave an attribute out. Children are nodes,
 * strings, numbers, or arrays of these; `null` and `false` are ignored.
 */
export function h(name, props = {}, ...children) {
  const element = document.createElement(name)
  for (const [key, value] of Object.entries(props)) set(element, key, value)
  append(element, children)
  return element
}

const PROPERTIES = new Set(['value', 'checked', 'hidden', 'disabled', 'selected', 'open', 'readOnly', 'required'])

function set(element, key, value) {
  if (key.startsWith('on')) element.addEventListener(key.slice(2), value)
  else if (key === 'data') Object.assign(element.dataset, value)
  else if (PROPERTIES.has(key)) element[key] = value ?? (key === 'value' ? '' : false)
  else if (value == null) return
  else if (key.startsWith('aria-')) element.setAttribute(key, value) // `false` is a value of ARIA attributes.
  else if (value === true) element.setAttribute(key, '')
  else if (value !== false) element.setAttribute(key, value)
}

export function append(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child == null || child === false) continue
    parent.append(child instanceof Node ? child : String(child))
  }
  return parent
}

/** Replaces the children of an element. */
export function fill(parent, ...children) {
  parent.replaceChildren()
  return append(parent, children)
}

/** An SVG element. */
export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name)
  for (const [key, value] of Object.entries(attributes)) if (value != null) element.setAttribute(key, value)
  return append(element, children)
}

/** An icon of /assets/icons.svg. */
export const icon = (name) =>
  svg('svg', { class: 'icon', 'aria-hidden': 'true' }, svg('use', { href: `/assets/icons.svg#${name}` }))

const tasks = new Set()
let isDrawing = false

/** Runs a function at the next frame, once per frame; during a frame, in the same frame. */
export function atFrame(task) {
  if (tasks.size === 0 && !isDrawing) requestAnimationFrame(drawFrame)
  tasks.add(task)
}

function drawFrame() {
  isDrawing = true
  try {
    // Includes functions added meanwhile.
    for (const task of tasks) { tasks.delete(task); task() }
  } finally {
    isDrawing = false
    if (tasks.size > 0) requestAnimationFrame(drawFrame)
  }
}

/** A button. The kinds are `primary`, `danger`, `quiet` and none. */
export function button(text, onclick, props = {}) {
  return h('button', { type: 'button', onclick, ...props }, text)
}

/** A control with its label above it, and a hint below. */
export function field(label, control, hint) {
  const id = control.id || `f${(field.count = (field.count ?? 0) + 1)}`
  control.id = id
  const note = hint && h('small', { id: `${id}-hint` }, hint)
  if (note) control.setAttribute('aria-describedby', note.id)
  return h('div', { class: 'field' }, h('label', { for: id }, label), control, note)
}

export function select(options, value, props = {}) {
  return h(
    'select', props,
    options.map((option) => {
      const [key, text] = Array.isArray(option) ? option : [option, option]
      return h('option', { value: key, selected: key === value }, text)
    }))
}

/** A list of names and values; pairs without a value are left out. */
export function facts(pairs) {
  return h(
    'dl', { class: 'facts' },
    pairs.filter(([, value]) => value != null && value !== '' && value !== false)
      .map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]))
}

let toastTimer
/** Shows a message at the page's edge for a few seconds. */
export function toast(text) {
  const element = document.getElementById('toast')
  element.textContent = text
  element.hidden = false
  clearTimeout(toastTimer)
  toastTimer = setTimeout(() => { element.hidden = true }, 4000)
}

/** Copies a text, even if the browser denies the clipboard to a page without TLS. */
export async function copy(text, what) {
  let done = false
  try {
    await navigator.clipboard.writeText(text)
    done = true
  } catch {
    const area = h('textarea', { class: 'offscreen', value: text })
    document.body.append(area)
    area.select()
    done = document.execCommand('copy')
    area.remove()
  }
  toast(done ? `Copied ${what}.` : `The browser does not allow this page to copy ${what}.`)
}

export function copyButton(text, what, label = 'Copy') {
  return button(label, () => copy(typeof text === 'function' ? text() : text, what), {
    class: 'small', 'aria-label': `Copy ${what}` })
}
