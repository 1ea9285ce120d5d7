import { webhookEventKind } from '../../../src/apis/webhook-event.ts'
import { type Good, NAME_ALLOWED, samplesOf, TYPE_ALLOWED } from './sample.ts'

export const goodEvent = {
  name: 'started-1',
  spec: { type: 'environment.started', data: { environmentId: 'env_1' } },
} satisfies Good

export const eventSamples = samplesOf(webhookEventKind, goodEvent, [
  ['an object', {}],
  ['a list', { spec: { data: [1, null, { a: [] }] } }],
  ['a text', { spec: { data: 'text' } }],
  ['false', { spec: { data: false } }],
  ['zero', { spec: { data: 0 } }],
  ['text of JSON', { spec: { data: undefined, dataText: '{"n":9007199254740993}' } }],
  ['a time to live', { spec: { ttlSecondsAfterFinished: 0 } }],
  // The policy of WebhookEvents rejects these, or the controller does.
  ['no data', { spec: { data: undefined } }],
  ['data that is null', { spec: { data: null } }],
  ['data twice', { spec: { dataText: '1' } }],
  [
    'an empty text',
    { spec: { data: undefined, dataText: '' }, refusal: ['spec.dataText', 'at least 1 chars'] },
  ],
  ['*', { spec: { type: '*' }, refusal: ['spec.type', TYPE_ALLOWED] }],
  ['a type with a slash', { spec: { type: 'a/b' }, refusal: ['spec.type', TYPE_ALLOWED] }],
  ['no type', { spec: { type: undefined }, refusal: ['spec.type: Required value'] }],
  ['a year to live', { spec: { ttlSecondsAfterFinished: 31_536_000 } }],
  [
    'longer than a year to live',
    {
      spec: { ttlSecondsAfterFinished: 31_536_001 },
      refusal: ['spec.ttlSecondsAfterFinished', 'less than or equal to 31536000'],
    },
  ],
  [
    'a negative time to live',
    {
      spec: { ttlSecondsAfterFinished: -1 },
      refusal: ['spec.ttlSecondsAfterFinished', 'greater than or equal to 0'],
    },
  ],
  ['a name with a dot', { name: 'a.b', refusal: NAME_ALLOWED, serverOnly: true }],
])
