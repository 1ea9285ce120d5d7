import { webhookDeliveryKind } from '../../../src/apis/webhook-delivery.ts'
import { EMOJI, type Good, ID, NAME_ALLOWED, samplesOf, UID } from './sample.ts'

export const goodDelivery = {
  name: `${ID}-01234567`,
  spec: {
    endpoint: 'billing',
    endpointUid: UID,
    deliveryId: `msg_${ID}`,
    eventType: 'environment.started',
    position: '48213/7',
    payload: '{"type":"environment.started","timestamp":"2026-01-31T12:00:00.000Z","data":{}}',
    writtenAt: '2026-01-31T12:00:00.000Z',
  },
} satisfies Good

export const deliverySamples = samplesOf(webhookDeliveryKind, goodDelivery, [
  ['as Davit makes them', {}],
  ['a redelivery', { spec: { redeliveryOf: `msg_${ID}` } }],
  ['a payload in the log', { spec: { payload: undefined, payloadRef: { segment: 's', event: 0 } } }],
  ['a payload of 16,384 characters', { spec: { payload: EMOJI.repeat(16_384) } }],
  [
    'a longer payload',
    { spec: { payload: EMOJI.repeat(16_385) }, refusal: ['spec.payload: Too long', '16384'] },
  ],
  ['no payload', { spec: { payload: undefined }, refusal: ['spec.payload', 'Required value'] }],
  [
    'both payloads',
    {
      spec: { payloadRef: { segment: 's', event: 0 } },
      refusal: ['"spec" must validate one and only one schema'],
    },
  ],
  [
    'an id of another kind',
    { spec: { deliveryId: `whe_${ID}` }, refusal: ['spec.deliveryId', 'should match'] },
  ],
  [
    'an id with a dot',
    { spec: { deliveryId: 'msg_0123456789.abcdefghjkmnpqr' }, refusal: ['spec.deliveryId', 'should match'] },
  ],
  [
    'a position without an index',
    { spec: { position: '48213' }, refusal: ['spec.position', 'should match'] },
  ],
  ['a time that is none', { spec: { writtenAt: 'yesterday' }, refusal: ['spec.writtenAt', 'date-time'] }],
  ['a date without a time', { spec: { writtenAt: '2026-01-31' }, refusal: ['spec.writtenAt', 'date-time'] }],
  ['no endpoint', { spec: { endpoint: undefined }, refusal: ['spec.endpoint: Required value'] }],
  ['a name with a dot', { name: 'a.b', refusal: NAME_ALLOWED, serverOnly: true }],
])
