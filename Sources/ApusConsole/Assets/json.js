// JSON as it was sent: never parsed and written anew, so that long numbers, repeated keys and escapes stay what they are.

import { h } from '/assets/dom.js'
import { spelled } from '/assets/text.js'

const TOKEN = /\s+|"(?:[^"\\]|\\[^])*"|[{}[\],:]|[^\s{}[\],:"]+/y
// Deeper levels are shown at this depth: a thousand brackets must not push the text out of sight.
const DEEPEST = 24

/** The tokens of a text, or null where it is none that JSON is made of. Without recursion: depth is no danger. */
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

/** The text with line breaks and indentation, as nodes; as it is where it is not JSON. */
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
  // A text in its own direction, so that it cannot turn the brackets around it.
  return token.startsWith('"')
    ? h('span', { class: kind }, '"', h('bdi', {}, spelled(token.slice(1, -1))), '"')
    : h('span', { class: kind }, spelled(token))
}

/** What keeps a text from being JSON, in words with line and column; null where nothing does. */
export function problem(text) {
  try {
    JSON.parse(text)
    return null
  } catch (error) {
    const words = String(error.message).replace(/^JSON\.parse: /, '')
    const at = /position (\d+)/.exec(words)
    if (!at || /line \d+/.test(words)) return words
    const before = text.slice(0, Number(at[1]))
    return `${words} (line ${before.split('\n').length} column ${before.length - before.lastIndexOf('\n')})`
  }
}
