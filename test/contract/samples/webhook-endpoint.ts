import { webhookEndpointKind } from '../../../src/apis/webhook-endpoint.ts'
import { EMOJI, type Good, NAME_ALLOWED, samplesOf, TYPE_ALLOWED } from './sample.ts'

export const goodEndpoint = {
  name: 'billing',
  spec: { url: 'https://billing.example.com/hooks', eventTypes: ['environment.started'] },
} satisfies Good

const URL_ALLOWED = ['spec.url', 'must be an https URL such as https://example.com/hooks']

export const endpointSamples = samplesOf(webhookEndpointKind, goodEndpoint, [
  ['the least that is needed', {}],
  [
    'everything',
    {
      spec: {
        description: 'Billing',
        ordered: true,
        state: 'disabled',
        concurrency: 32,
        signingSecret: { name: 'billing-signing.keys' },
      },
    },
  ],
  ['a URL with port, path and query', { spec: { url: 'https://example.com:8443/a/b?c=d&e=%20' } }],
  ['a URL of an address', { spec: { url: 'https://[2001:db8::1]/hooks' } }],
  ['a URL of an international name', { spec: { url: 'https://b\u00fccher.example/\u{1f4da}' } }],
  ['http, which an operator may allow', { spec: { url: 'http://10.0.0.1/hooks' } }],
  ['a scheme in capitals', { spec: { url: 'HTTPS://example.com/' } }],
  ['a scheme in mixed case', { spec: { url: 'hTTp://10.0.0.1/' } }],
  ['a dot at the end of the name', { spec: { url: 'https://example.com./hooks' } }],
  ['an @ in the path', { spec: { url: 'https://example.com/@acme' } }],
  ['a URL of 2,048 characters', { spec: { url: `https://example.com/${'a'.repeat(2028)}` } }],
  [
    'a URL of 2,049 characters',
    { spec: { url: `https://example.com/${'a'.repeat(2029)}` }, refusal: ['spec.url: Too long', '2048'] },
  ],
  ['another scheme', { spec: { url: 'ftp://example.com/hooks' }, refusal: URL_ALLOWED }],
  ['another scheme in a short URL', { spec: { url: 'ftp://x' }, refusal: URL_ALLOWED }],
  ['no scheme', { spec: { url: 'x.com' }, refusal: URL_ALLOWED }],
  ['an empty URL', { spec: { url: '' }, refusal: URL_ALLOWED }],
  ['user and password', { spec: { url: 'https://me:secret@example.com/' }, refusal: URL_ALLOWED }],
  ['a user', { spec: { url: 'https://me@example.com/' }, refusal: URL_ALLOWED }],
  ['a fragment', { spec: { url: 'https://example.com/a#b' }, refusal: URL_ALLOWED }],
  ['a fragment after the host', { spec: { url: 'https://example.com#b' }, refusal: URL_ALLOWED }],
  ['a space', { spec: { url: 'https://example.com/a b' }, refusal: URL_ALLOWED }],
  ['a no-break space', { spec: { url: 'https://example.com/a\u00a0b' }, refusal: URL_ALLOWED }],
  ['a line end', { spec: { url: 'https://example.com/a\nb' }, refusal: URL_ALLOWED }],
  ['a line end at the end', { spec: { url: 'https://example.com/a\n' }, refusal: URL_ALLOWED }],
  ['a control character', { spec: { url: 'https://example.com/\u0007' }, refusal: URL_ALLOWED }],
  [
    'a backslash that hides a host',
    { spec: { url: 'https://example.com\\@evil.example/' }, refusal: URL_ALLOWED },
  ],
  ['no host', { spec: { url: 'https:///hooks' }, refusal: URL_ALLOWED }],
  ['no URL', { spec: { url: undefined }, refusal: ['spec.url: Required value'] }],
  ['a URL that is a number', { spec: { url: 7 }, refusal: ['spec.url', 'must be of type string'] }],
  ['*', { spec: { eventTypes: ['*'] } }],
  ['100 types', { spec: { eventTypes: Array.from({ length: 100 }, (_, i) => `a.${i}`) } }],
  ['a type of one letter', { spec: { eventTypes: ['a'] } }],
  ['a type of 128 characters', { spec: { eventTypes: ['a'.repeat(128)] } }],
  [
    'a type of 129 characters',
    { spec: { eventTypes: ['a'.repeat(129)] }, refusal: ['spec.eventTypes[0]: Too long', '128'] },
  ],
  ['no types', { spec: { eventTypes: undefined }, refusal: ['spec.eventTypes: Required value'] }],
  ['an empty list of types', { spec: { eventTypes: [] }, refusal: ['spec.eventTypes', 'at least 1 items'] }],
  [
    '101 types',
    {
      spec: { eventTypes: Array.from({ length: 101 }, (_, i) => `a.${i}`) },
      refusal: ['spec.eventTypes: Too many: 101: must have at most 100 items'],
    },
  ],
  [
    '* beside a type',
    {
      spec: { eventTypes: ['a', '*'] },
      refusal: ['spec.eventTypes', "must not combine '*' with other types; use ['*']"],
    },
  ],
  [
    'a type twice',
    {
      spec: { eventTypes: ['a', 'b', 'a'] },
      refusal: ['spec.eventTypes', 'must not contain duplicate types'],
    },
  ],
  [
    '* twice',
    { spec: { eventTypes: ['*', '*'] }, refusal: ['spec.eventTypes', 'must not contain duplicate types'] },
  ],
  [
    'a type in capitals',
    { spec: { eventTypes: ['Started'] }, refusal: ['spec.eventTypes[0]', TYPE_ALLOWED] },
  ],
  [
    'a type that ends with an underscore',
    { spec: { eventTypes: ['a.b_'] }, refusal: ['spec.eventTypes[0]', TYPE_ALLOWED] },
  ],
  [
    'a type with an empty part',
    { spec: { eventTypes: ['a..b'] }, refusal: ['spec.eventTypes[0]', TYPE_ALLOWED] },
  ],
  ['a pattern of types', { spec: { eventTypes: ['a.*'] }, refusal: ['spec.eventTypes[0]', TYPE_ALLOWED] }],
  ['an empty type', { spec: { eventTypes: [''] }, refusal: ['spec.eventTypes[0]', 'at least 1 chars'] }],
  ['200 emoji', { spec: { description: EMOJI.repeat(200) } }],
  ['201 emoji', { spec: { description: EMOJI.repeat(201) }, refusal: ['spec.description: Too long', '200'] }],
  ['an empty description', { spec: { description: '' } }],
  ['1 at a time', { spec: { concurrency: 1 } }],
  ['0 at a time', { spec: { concurrency: 0 }, refusal: ['spec.concurrency', 'greater than or equal to 1'] }],
  ['33 at a time', { spec: { concurrency: 33 }, refusal: ['spec.concurrency', 'less than or equal to 32'] }],
  [
    'half a delivery',
    { spec: { concurrency: 1.5 }, refusal: ['spec.concurrency', 'must be of type integer'] },
  ],
  ['"yes" for a boolean', { spec: { ordered: 'yes' }, refusal: ['spec.ordered', 'must be of type boolean'] }],
  [
    'an unknown state',
    { spec: { state: 'paused' }, refusal: ['spec.state: Unsupported value', '"enabled", "disabled"'] },
  ],
  [
    'a Secret in another namespace',
    {
      spec: { signingSecret: { name: 'other/keys' } },
      refusal: ['spec.signingSecret.name', 'the name of a Secret'],
    },
  ],
  [
    'a Secret named ..',
    { spec: { signingSecret: { name: '..' } }, refusal: ['spec.signingSecret.name', 'the name of a Secret'] },
  ],
  [
    'a Secret without a name',
    { spec: { signingSecret: {} }, refusal: ['spec.signingSecret.name: Required value'] },
  ],
  ['a name of 63 characters', { name: 'a'.repeat(63) }],
  ['a name of 64 characters', { name: 'a'.repeat(64), refusal: NAME_ALLOWED, serverOnly: true }],
  ['a name with a dot', { name: 'billing.v2', refusal: NAME_ALLOWED, serverOnly: true }],
  [
    'a misspelt field',
    { spec: { eventtypes: ['a'] }, refusal: ['unknown field "spec.eventtypes"'], serverOnly: true },
  ],
])
