// JSON as it was sent: never parsed and serialized again, so that long numbers, repeated keys and escapes are kept.

import { h } from '/assets/dom.js'
import { spelled } from '/assets/text.js'

const TOKEN = /\s+|"(?:[^"\\]|\\[^])*"|[{}[\],:]|[^\s{}[\],:"]+/y
// The deepest indentation: a thousand brackets must not push the text out of view.
const DEEPEST = 24

/** The JSON tokens of a text, or null if it has others. Not recursive, so deep nesting is safe. */
export function tokens(text) {
  const found = []
  TOKEN.lastIndex = 0
  while (TOKEN.lastIndex < text.length) {
    const match = TOKEN.exec(text)
    if (!match) return null
    if (match[0].trim()) found.push(match[0])
  }
  return found.length ? found : null
}

/** The text as nodes, with line breaks and indentation; unchanged if it is not JSON. */
export function formatted(text) {
  const list = tokens(text)
  if (!list) return spelled(text)
  const nodes = []
  let depth = 0
  const newLine = () => nodes.push(`\n${'  '.repeat(Math.min(depth, DEEPEST))}`)
  list.forEach((token, index) => {
    const next = list[index + 1]
    if (token === '{' || token === '[') {
      nodes.push(token)
      depth += 1
      if (next !== '}' && next !== ']') newLine()
    } else if (token === '}' || token === ']') {
      depth = Math.max(0, depth - 1)
      const before = list[index - 1]
      if (before !== '{' && before !== '[') newLine()
      nodes.push(token)
    } else if (token === ',') {
      nodes.push(token)
      newLine()
    } else if (token === ':') {
      nodes.push(': ')
    } else {
      nodes.push(value(token, next === ':'))
    }
  })
  return nodes
}

function value(token, isKey) {
  const kind = isKey ? 'key' : token.startsWith('"') ? 'string' : /^-?\d/.test(token) ? 'number' : 'word'
  // Isolated, so that right-to-left text cannot reorder the brackets around it.
  return token.startsWith('"')
    ? h('span', { class: kind }, '"', h('bdi', {}, spelled(token.slice(1, -1))), '"')
    : h('span', { class: kind }, spelled(token))
}

const LITERAL = /(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.+-])/y
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*"/y
const SPACE = /[ \t\r\n]*/y

/**
 * Why a text is not JSON (RFC 8259), with line and column; null if it is.
 *
 * The browser's own messages do not always have a position.
 */
export function problem(text) {
  const open = [] // The enclosing brackets.
  let at = 0
  let wants = 'a value'
  const take = (pattern) => {
    pattern.lastIndex = at
    const found = pattern.exec(text)
    if (found) at = pattern.lastIndex
    return found !== null
  }
  const closed = () => (open.length ? `a comma or ${open.at(-1) === '{' ? '}' : ']'}` : 'the end')
  for (;;) {
    take(SPACE)
    const character = text[at]
    if (character === undefined) break
    const inner = open.at(-1)
    if (wants.startsWith('a value')) {
      if (character === '{' || character === '[') {
        open.push(character)
        wants = character === '{' ? 'a name in quotes or }' : 'a value or ]'
        at += 1
      } else if (character === ']' && wants === 'a value or ]') { open.pop(); at += 1; wants = closed() }
      else if (take(STRING) || take(LITERAL)) wants = closed()
      else break
    } else if (wants.startsWith('a name')) {
      if (character === '}' && wants.endsWith('}')) { open.pop(); at += 1; wants = closed() }
      else if (take(STRING)) wants = 'a colon'
      else break
    } else if (wants === 'a colon' && character === ':') { at += 1; wants = 'a value' }
    else if (character === ',' && inner) { at += 1; wants = inner === '{' ? 'a name in quotes' : 'a value' }
    else if (inner && wants !== 'a colon'
      && character === (inner === '{' ? '}' : ']')) { open.pop(); at += 1; wants = closed() }
    else break
  }
  if (at >= text.length && wants === 'the end') return null
  const before = text.slice(0, at)
  const line = before.split('\n').length
  return `This is not JSON: ${wants} is expected in line ${line}, column ${at - before.lastIndexOf('\n')}.`
}
