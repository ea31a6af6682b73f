// The push types of the composer: topic suffix, priority, form fields, and the payload made from them.

/** A field of the form: `key` of its value, `kind` of control, and `options` for a choice. */
const TEXTS = [
  { key: 'title', label: 'Title' }, { key: 'subtitle', label: 'Subtitle' },
    { key: 'body', label: 'Body', kind: 'area' },
]
const ALERT = [
  ...TEXTS,
  { key: 'badge', label: 'Badge', kind: 'number' }, { key: 'sound', label: 'Sound', placeholder: 'default' },
  { key: 'category', label: 'Category' }, { key: 'thread', label: 'Thread' },
  { key: 'level', label: 'Interruption level', kind: 'choice',
    options: [['', 'active (default)'], 'passive', 'time-sensitive', 'critical'] },
  { key: 'relevance', label: 'Relevance, 0 to 1', kind: 'number' },
  { key: 'mutable', label: 'A service extension may change it', kind: 'check' },
  { key: 'available', label: 'Also wake the app', kind: 'check' },
]
const DATA = { key: 'data', label: 'The app’s own data, as JSON', kind: 'json', placeholder: '{"order": 1742}' }

const later = (text, seconds) => (text === '' || text == null ? undefined : seconds + Math.floor(Number(text)))
const number = (text) => (text === '' || text == null ? undefined : Number(text))

function alertOf({ title, subtitle, body }) {
  const alert = { title: title || undefined, subtitle: subtitle || undefined, body: body || undefined }
  return title || subtitle || body ? alert : undefined
}

function parsed(text, name) {
  if (!text?.trim()) return undefined
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Error(`${name}: ${error.message}`)
  }
}

function own(values) {
  const data = parsed(values.data, 'The app’s own data') ?? {}
  if (typeof data !== 'object'
    || Array.isArray(data)) throw new Error('The app’s own data must be an object, such as {"key": 1}')
  return data
}

const simple = (aps, fields = [DATA]) => ({ priority: '10', fields, payload: (values) => ({ aps, ...own(values) }) })

export const PUSH_TYPES = {
  alert: {
    suffix: '', priority: '10', fields: [...ALERT, DATA],
    payload: (values) => ({
      aps: {
        alert: alertOf(values), badge: number(values.badge), sound: values.sound || undefined,
        category: values.category || undefined, 'thread-id': values.thread || undefined,
        'interruption-level': values.level || undefined, 'relevance-score': number(values.relevance),
        'mutable-content': values.mutable ? 1 : undefined, 'content-available': values.available ? 1 : undefined,
      },
      ...own(values),
    }),
  },
  background: { suffix: '', ...simple({ 'content-available': 1 }), priority: '5' },
  liveactivity: {
    suffix: '.push-type.liveactivity', priority: '10',
    fields: [
      { key: 'event', label: 'Event', kind: 'choice', options: ['update', 'start', 'end'] },
      { key: 'state', label: 'Content state, as JSON', kind: 'json', placeholder: '{"score": "2:1"}' },
      { key: 'attributesType', label: 'Attributes type (start)' },
      { key: 'attributes', label: 'Attributes, as JSON (start)', kind: 'json',
        placeholder: '{"match": "Basel – Bern"}' },
      { key: 'channel', label: 'Updated over channel (start)' },
      ...TEXTS.filter(({ key }) => key !== 'subtitle'),
      { key: 'score', label: 'Relevance', kind: 'number' },
      { key: 'staleAfter', label: 'Stale, s from now', kind: 'number' },
      { key: 'dismissAfter', label: 'Off the screen, s from now (end)', kind: 'number' },
    ],
    payload: (values, seconds) => ({
      aps: {
        timestamp: seconds, event: values.event || 'update',
          'content-state': parsed(values.state, 'Content state') ?? {},
        'attributes-type': values.attributesType || undefined, attributes: parsed(values.attributes, 'Attributes'),
        'input-push-channel': values.event === 'start' && values.channel ? values.channel : undefined,
        alert: alertOf(values), 'relevance-score': number(values.score),
        'stale-date': later(values.staleAfter, seconds),
        'dismissal-date': values.event === 'end' ? later(values.dismissAfter, seconds) : undefined,
      },
    }),
  },
  voip: { suffix: '.voip', ...simple({}) },
  location: { suffix: '.location-query', ...simple({}, []) },
  complication: { suffix: '.complication', ...simple({}) },
  fileprovider: {
    suffix: '.pushkit.fileprovider', priority: '10',
    fields: [{ key: 'container', label: 'Container identifier' }, { key: 'domain', label: 'Domain' }],
    payload: ({ container,
      domain }) => ({ 'container-identifier': container || 'NSFileProviderWorkingSetContainerItemIdentifier',
      domain: domain || undefined }),
  },
  mdm: {
    suffix: '', priority: '10', fields: [{ key: 'magic', label: 'Push magic' }],
    payload: ({ magic }) => ({ mdm: magic || '' }),
  },
  pushtotalk: { suffix: '.voip-ptt', ...simple({}) },
  widgets: { suffix: '.push-type.widgets', ...simple({ 'content-changed': true }, []) },
  controls: { suffix: '.push-type.controls', ...simple({ 'content-changed': true }, []) },
}

/** A preview of what a device would show of a payload; only the device has the localized texts. */
export function preview(payload, type) {
  const aps = payload && typeof payload === 'object' ? payload.aps ?? {} : {}
  const alert = typeof aps.alert === 'string' ? { body: aps.alert } : aps.alert ?? {}
  const text = (value, key) => (typeof value === 'string' ? value : alert[key] ? `(${alert[key]})` : undefined)
  const shown = {
    title: text(alert.title, 'title-loc-key'), subtitle: text(alert.subtitle, 'subtitle-loc-key'),
    body: text(alert.body, 'loc-key'), action: text(undefined, 'action-loc-key'), launchImage: alert['launch-image'],
    badge: aps.badge, sound: aps.sound, interruptionLevel: aps['interruption-level'],
  }
  if (type === 'liveactivity') shown.liveActivity = { event: aps.event, state: aps['content-state'] }
  shown.silent = type !== 'alert' && type !== 'liveactivity'
    || !(shown.title || shown.subtitle || shown.body || shown.badge !== undefined || shown.sound || shown.liveActivity)
  return shown
}
