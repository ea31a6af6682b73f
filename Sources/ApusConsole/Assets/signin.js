// The sign-in form for the token that the API requires.

import { get, useToken } from '/assets/api.js'
import { field, fill, h } from '/assets/dom.js'

const WHERE = {
  service: ['This is the console of ', h('code', {}, 'apus serve'), '. ',
    'Enter an administration token from ', h('code', {}, 'apus admin add'), '. ',
    'Its scopes decide what you can do here.'],
  dev: ['This is a development service (', h('code', {}, 'apus dev'), ') that other machines can reach. ',
  'It printed the password when it started.'],
}

export class SignIn {
  /** `message`: why the form is shown again. `onenter` is called once the service accepts a token. */
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
    // Only characters that a header can carry; for others the browser would show its own message.
    if (!/^[\x21-\x7e]+$/.test(secret)) return this.#say('A token has no spaces and only ASCII characters.')
    this.send.disabled = true
    useToken(secret)
    try {
      await get('/status')
      this.onenter()
    } catch (problem) {
      // A token without the scope read is valid too.
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
