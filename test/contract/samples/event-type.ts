import { eventTypeKind } from '../../../src/apis/event-type.ts'
import { EMOJI, type Good, samplesOf, TYPE_ALLOWED } from './sample.ts'

export const goodEventType = {
  name: 'environment.paused',
  spec: { description: 'An environment was paused.' },
} satisfies Good

const EVENT_TYPE_NAME = ['metadata.name', TYPE_ALLOWED, 'at most 128 characters']

export const eventTypeSamples = samplesOf(eventTypeKind, goodEventType, [
  ['a description alone', {}],
  [
    'a schema and an example',
    {
      spec: {
        schema: { type: 'object', properties: { id: { type: 'string' } }, $comment: 'any keyword' },
        example: { id: 'env_1' },
        deprecated: true,
      },
    },
  ],
  ['an example that is a text', { spec: { example: 'text' } }],
  ['no description', { spec: { description: undefined }, refusal: ['spec.description: Required value'] }],
  ['an empty description', { spec: { description: '' }, refusal: ['spec.description', 'at least 1 chars'] }],
  ['1,024 emoji', { spec: { description: EMOJI.repeat(1024) } }],
  [
    '1,025 emoji',
    { spec: { description: EMOJI.repeat(1025) }, refusal: ['spec.description: Too long', '1024'] },
  ],
  [
    'a schema that is a text',
    { spec: { schema: 'object' }, refusal: ['spec.schema', 'must be of type object'] },
  ],
  ['a schema that is true', { spec: { schema: true }, refusal: ['spec.schema', 'must be of type object'] }],
  ['a name of 128 characters', { name: `a.${'b'.repeat(126)}` }],
  ['a name of 129 characters', { name: `a.${'b'.repeat(127)}`, refusal: EVENT_TYPE_NAME, serverOnly: true }],
  ['a name in capitals', { name: 'Environment', refusal: EVENT_TYPE_NAME, serverOnly: true }],
])
