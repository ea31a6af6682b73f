// Asks for the token without which a service shows nothing.

import { get, useToken } from '/assets/api.js'
import { field, fill, h } from '/assets/dom.js'

const WHERE = {
  service: ['This is the console of ', h('code', {}, 'apus serve'), '. ',
    'It asks for a token of an administrator, as ', h('code', {}, 'apus admin add'), ' makes them. ',
    'What can be done here depends on the token’s scopes.'],
  dev: ['This is a stand-in of ', h('code', {}, 'apus dev'), ' that other machines can reach. ',
    'It printed the password when it was started.'],
}

export class SignIn {
  /** `message`: why one is asked again. `onenter` is called once there is a token that the service takes. */
  constructor({ kind }, message, onenter) {
    this.onenter = onenter
    this.secret = h('input', { type: 'password', autocomplete: 'off', spellcheck: 'false', required: true,
      autofocus: true })
    this.fault = h('p', { class: 'callout bad', role: 'alert', hidden: !message }, message)
    this.send = h('button', { type: 'submit', class: 'primary' }, 'Sign in')
    this.element = h('section', { class: 'view signin', 'aria-label': 'Sign in' },
      h('form', { class: 'box', onsubmit: (event) => { event.preventDefault(); this.#enter() } },
        h('h1', {}, 'Sign in'), h('p', { class: 'muted' }, WHERE[kind].map((one) => one.cloneNode?.(true) ?? one)),
        field(kind === 'dev' ? 'Password' : 'Token', this.secret,
          'Kept until this tab is closed, and sent only to this service.'),
        this.fault, h('div', { class: 'actions' }, this.send)))
  }

  async #enter() {
    const secret = this.secret.value.trim()
    // What a header can carry; the browser would refuse the rest in words of its own.
    if (!/^[\x21-\x7e]+$/.test(secret)) return this.#say('A token has no spaces and no letters beyond ASCII.')
    this.send.disabled = true
    useToken(secret)
    try {
      await get('/status')
      this.onenter()
    } catch (problem) {
      // A token that may do something else than read is one all the same.
      if (problem.status === 403) this.onenter()
      else { useToken(null); this.#say(problem.message) }
    } finally { this.send.disabled = false }
  }

  #say(text) {
    fill(this.fault, text)
    this.fault.hidden = false
    this.secret.focus()
    this.secret.select()
  }
}
