// The effects of faults, with their settings in the API.

/** Statuses and reasons to choose from; others can be typed. */
export const REASONS = [
  [410, 'Unregistered'], [410, 'ExpiredToken'], [400, 'BadDeviceToken'], [400, 'DeviceTokenNotForTopic'],
  [400, 'BadTopic'], [400, 'TopicDisallowed'], [400, 'BadCollapseId'], [400, 'BadExpirationDate'],
  [400, 'BadPriority'], [400, 'InvalidPushType'], [400, 'IdleTimeout'], [400, 'PayloadEmpty'],
  [403, 'ExpiredProviderToken'], [403, 'InvalidProviderToken'], [403, 'BadCertificate'], [403, 'Forbidden'],
  [404, 'BadPath'], [413, 'PayloadTooLarge'], [429, 'TooManyRequests'], [429, 'TooManyProviderTokenUpdates'],
  [500, 'InternalServerError'], [503, 'ServiceUnavailable'], [503, 'Shutdown'],
]

const CODES = ['noError', 'protocolError', 'internalError', 'flowControlError', 'refusedStream', 'cancel',
  'enhanceYourCalm']
const BINARY = ['processingError', 'missingDeviceToken', 'missingTopic', 'missingPayload', 'invalidTokenSize',
  'invalidTopicSize',
  'invalidPayloadSize', 'invalidToken', 'shutdown', 'protocolError', 'unknown']

export const EFFECTS = {
  respond: {
    label: 'Reject with a reason',
    fields: [
      { key: 'reason', label: 'Reason', value: 'Unregistered', list: 'reasons' },
      { key: 'status', label: 'Status', kind: 'number', placeholder: 'that of the reason' },
      { key: 'retryAfterSeconds', label: 'retry-after, seconds', kind: 'number', placeholder: 'none' },
    ],
  },
  delay: { label: 'Respond late',
    fields: [{ key: 'milliseconds', label: 'Milliseconds', kind: 'number', value: '2000' }] },
  noAnswer: { label: 'Never respond', fields: [] },
  deadToken: { label: 'Dead token', note: 'Responds 410; the feedback service lists the token.',
    fields: [{ key: 'timestampMilliseconds', label: 'Since, Unix milliseconds', kind: 'number',
      placeholder: 'now' }] },
  resetStream: { label: 'Reset the stream',
    fields: [{ key: 'code', label: 'Error code', kind: 'choice', options: CODES, value: 'internalError' }] },
  goAway: {
    label: 'Send GOAWAY',
    fields: [
      { key: 'lastStream', label: 'Last stream', kind: 'choice', value: 'thisOne',
        options: [['thisOne', 'this one'], ['before', 'the one before'], ['none', 'none (0)'],
          ['all', 'all (warning)']] },
      { key: 'reason', label: 'Reason', list: 'reasons', placeholder: 'none' },
      { key: 'code', label: 'Error code', kind: 'choice', options: CODES, value: 'noError' },
      { key: 'closes', label: 'Close at once', kind: 'check' },
    ],
  },
  closeInTheMiddle: { label: 'Close in the middle of the response', fields: [] },
  deviceOffline: { label: 'Take the device offline', fields: [],
    note: 'Before the service decides on the push. Switch the device on again under Devices.' },
  certificate: {
    label: 'Present a bad certificate', isOfConnections: true,
    note: 'On every provider connection opened while the fault is armed.',
    fields: [{ key: 'which', label: 'Certificate', kind: 'choice', value: 'expired',
      options: [['expired', 'expired'], ['foreign', 'of an unknown authority'],
        ['otherName', 'for another name']] }],
  },
  connections: {
    label: 'Limit connections', isOfConnections: true,
    note: 'On every provider connection opened while the fault is armed.',
    fields: [
      { key: 'maxConcurrentStreams', label: 'Streams at once', kind: 'number', value: '1' },
      { key: 'initialWindowBytes', label: 'Initial window, bytes', kind: 'number', placeholder: 'default' },
    ],
  },
  binaryError: {
    label: 'Binary: error packet',
    fields: [
      { key: 'status', label: 'Status', kind: 'choice', options: BINARY, value: 'invalidToken' },
      { key: 'lateMilliseconds', label: 'Late by, milliseconds', kind: 'number', placeholder: '0' },
    ],
  },
  binarySilence: { label: 'Binary: lost error packet', fields: [] },
  binaryShutdown: { label: 'Binary: status 10, shutdown', fields: [] },
}

/** A short description of an effect. */
export function effectWords(effect = {}) {
  const label = EFFECTS[effect.type]?.label ?? effect.type ?? '–'
  const details = Object.entries(effect).filter(([key]) => key !== 'type').map(([key, value]) => {
    if (key === 'then') return `then ${effectWords(value).toLowerCase()}`
    if (key === 'closes') return value && 'closes'
    if (key === 'timestampMilliseconds') return `since ${new Date(value).toISOString()}`
    if (/milliseconds/i.test(key)) return `${value} ms`
    return /seconds/i.test(key) ? `${value} s` : String(value)
  }).filter(Boolean)
  return details.length ? `${label}: ${details.join(', ')}` : label
}
