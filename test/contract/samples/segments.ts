import { deliverySegmentKind } from '../../../src/apis/delivery-segment.ts'
import { outcomeSegmentKind } from '../../../src/apis/outcome-segment.ts'
import { type Good, ID, NAME_ALLOWED, samplesOf, UID } from './sample.ts'

export const goodDeliverySegment = {
  name: ID,
  spec: {
    writtenAt: 1_769_860_800_000,
    writer: 'davit-0',
    events: [`${ID} acme environment.started - - {}`],
    deliveries: `0 billing ${UID}`,
  },
} satisfies Good

export const goodOutcomeSegment = {
  name: ID,
  spec: {
    writtenAt: 1_769_860_800_000,
    writer: 'davit-0',
    lowWater: '48213',
    records: '48213/7 moved',
  },
} satisfies Good

const PACKED = {
  events: undefined,
  deliveries: undefined,
  packed: 'H4sIAAAAAAAAA6tWKkpNzi9KKVayUkpUqgUAFlRq5hAAAAA=',
}

export const segmentSamples = [
  ...samplesOf(deliverySegmentKind, goodDeliverySegment, [
    ['one event to one endpoint', {}],
    ['an event that nobody gets', { spec: { deliveries: '' } }],
    ['a packed text', { spec: PACKED }],
    [
      'a packed text beside another',
      {
        spec: { packed: PACKED.packed },
        refusal: ['must validate one and only one schema'],
        serverOnly: true,
      },
    ],
    [
      'no text',
      {
        spec: { events: undefined, deliveries: undefined },
        refusal: ['must validate one and only one schema'],
        serverOnly: true,
      },
    ],
    ['no events', { spec: { events: [] }, refusal: ['spec.events', 'at least 1 items'] }],
    [
      'an event that is too short to be one',
      { spec: { events: [`${ID} acme - -`] }, refusal: ['spec.events[0]', 'should be at least 40 chars'] },
    ],
    [
      'a time before 1970',
      { spec: { writtenAt: -1 }, refusal: ['spec.writtenAt', 'greater than or equal to 0'] },
    ],
    ['a name with a dot', { name: 'a.b', refusal: NAME_ALLOWED, serverOnly: true }],
  ]),
  ...samplesOf(outcomeSegmentKind, goodOutcomeSegment, [
    ['a record', {}],
    ['packed records', { spec: { records: undefined, packed: PACKED.packed } }],
    [
      'packed records beside others',
      {
        spec: { packed: PACKED.packed },
        refusal: ['must validate one and only one schema'],
        serverOnly: true,
      },
    ],
    ['a record that is too short', { spec: { records: 'x' }, refusal: ['spec.records', 'at least 5 chars'] }],
    ['a mark that is no number', { spec: { lowWater: 'all' }, refusal: ['spec.lowWater', 'should match'] }],
    ['no writer', { spec: { writer: undefined }, refusal: ['spec.writer: Required value'] }],
    ['a name with a dot', { name: 'a.b', refusal: NAME_ALLOWED, serverOnly: true }],
  ]),
]
