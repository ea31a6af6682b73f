// Images that a payload names. The page never loads them: its policy forbids it, and their host would learn who looks.

import { h } from '/assets/dom.js'
import { literal } from '/assets/text.js'

const MOST = 4
const DEPTH = 5
const ENDING = /\.(?:png|jpe?g|gif|webp|heic|avif|svg)$/i
const KEY = /image|picture|photo|thumbnail|avatar|attachment|media/i

/** The addresses in the app's own part of a payload that look like those of images. */
export function imagesOf(payload) {
  const found = new Set()
  const search = (value, key, depth) => {
    if (found.size === MOST) return
    if (typeof value === 'string') {
      let url
      try { url = new URL(value) } catch { return }
      if (/^https?:$/.test(url.protocol) && (ENDING.test(url.pathname) || KEY.test(key))) found.add(url)
    } else if (value && typeof value === 'object' && depth < DEPTH) {
      for (const [name, inner] of Object.entries(value)) search(inner, Array.isArray(value) ? key : name, depth + 1)
    }
  }
  if (payload && typeof payload === 'object') {
    for (const [key, value] of Object.entries(payload)) if (key !== 'aps') search(value, key, 1)
  }
  return [...found]
}

/** Links to them, or null if there are none. Another page shows an image, once somebody asks for it. */
export function imageLinks(payload) {
  const images = imagesOf(payload)
  if (images.length === 0) return null
  return h('ul', { class: 'images' }, images.map((url) => h('li', {},
    h('a', { href: url.href, target: '_blank', rel: 'noopener noreferrer', referrerpolicy: 'no-referrer' },
      'Show the image'), ' ', h('small', { class: 'muted' }, 'from ', literal(url.host)))))
}
