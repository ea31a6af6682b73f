// The targets of the composer: the development service, which knows its devices and keeps each push, or the service.
//
// `devices()` and `channels()` to choose from, `topics()` with the offset of the service's clock, and `send(push)`, which describes the
// response: `{ good, words, explanation, fault, ids, href, link }`, and `later()` for what is known only a moment
// later.

import { get, post, query } from '/assets/api.js'

/** The push with an apns-id; the inbox has it a moment after the response. */
async function numberOf(apnsID) {
  for (let attempt = 0; attempt < 10; attempt += 1) {
    const { pushes } = await get(`/pushes${query({ q: apnsID, limit: 1 })}`)
    if (pushes[0]?.apnsID === apnsID) return pushes[0].number
    await new Promise((done) => { setTimeout(done, 100) })
  }
  return null
}

const inInbox = (number) => (number == null ? {} : { href: `#/inbox/${number}`, link: `Open push ${number}` })

export const standInSender = {
  title: 'Compose',

  async devices() { return (await get('/devices')).devices },

  async channels() {
    const { channels } = await get('/channels')
    return channels.map(({ channel, topic, environment }) => ({ channel, topic, environment }))
  },

  async topics() {
    const { topics, clock } = await get('/status')
    return { topics, offsetMilliseconds: clock?.offsetMilliseconds ?? 0 }
  },

  async send(push) {
    const { verdict, apnsID, number, violations = [] } = await post('/send', push)
    const accepted = violations.length === 0 ? 'Accepted'
      : `Accepted, with ${violations.length} ${violations.length === 1 ? 'violation' : 'violations'}`
    const words = verdict.accepted ? accepted : verdict.unknown
      ? `No response: ${verdict.unknown}` : `Rejected: ${verdict.status} ${verdict.reason}`
    return {
      good: verdict.accepted, words, explanation: verdict.explanation, violations, fault: verdict.fault,
      ids: [['apns-id', apnsID]],
      ...inInbox(number), later: number == null && apnsID ? async () => inInbox(await numberOf(apnsID)) : null,
    }
  },
}

export const serviceSender = {
  title: 'Send',
  note: 'A test push is handled like a provider’s, and reaches the real device. The audit log records it.',

  async devices() { return [] },

  async channels() { return [] },

  async topics() {
    const { apps } = await get('/apps')
    return { topics: apps.map(({ topic }) => topic), offsetMilliseconds: 0 }
  },

  async send({ pushType, collapseID, payload, ...push }) {
    const answer = await post('/notifications', {
      ...push, push_type: pushType, collapse_id: collapseID, payload_text: payload })
    const good = answer.status === 200
    return {
      good, words: good ? 'Accepted' : `Rejected: ${answer.status} ${answer.reason}`, explanation: answer.explanation,
      ids: [['apns-id', answer.apns_id], ['apns-unique-id', answer.apns_unique_id]],
      ...good && answer.apns_id && { href: `#/ledger/${answer.apns_id}`, link: 'See what happens to it' },
    }
  },
}
