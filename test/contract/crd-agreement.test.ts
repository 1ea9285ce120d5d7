/** Whatever is asked, API server and schemas give the same verdict: generated specs instead of chosen ones. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { boxTemplateKind } from '../../src/apis/box-template.ts'
import type { KindDefinition } from '../../src/apis/meta.ts'
import { registryCredentialKind } from '../../src/apis/registry-credential.ts'
import { secretsSettingsKind } from '../../src/apis/secrets-settings.ts'
import { webhookDeliveryKind } from '../../src/apis/webhook-delivery.ts'
import { webhookEndpointKind } from '../../src/apis/webhook-endpoint.ts'
import { webhookEventKind } from '../../src/apis/webhook-event.ts'
import { fc } from '../support/fast-check.ts'
import { type ClusterApi, connect, objectOf, pathOf } from './cluster-api.ts'
import { goodTemplate } from './samples/box-template.ts'
import { goodCredential } from './samples/registry-credential.ts'
import { goodSettings } from './samples/secrets-settings.ts'
import { goodDelivery } from './samples/webhook-delivery.ts'
import { goodEndpoint } from './samples/webhook-endpoint.ts'
import { goodEvent } from './samples/webhook-event.ts'

const RUNS = 300

let api: ClusterApi
beforeAll(() => {
  api = connect()
})
afterAll(() => api.close())

/** Pieces that have split parsers before: separators, escapes, white space of every sort, text beyond 16 bits. */
const piece = fc.oneof(
  fc.constantFrom(
    'https://',
    'http://',
    'a',
    'example.com',
    '/',
    '?',
    '#',
    '@',
    ':',
    '\\',
    '%20',
    '.',
    '..',
    '-',
  ),
  fc.constantFrom(
    ' ',
    '\t',
    '\n',
    '\r',
    '\u0000',
    '\u0085',
    '\u00a0',
    '\u1680',
    '\u2003',
    '\u2028',
    '\u3000',
  ),
  fc.constantFrom('\ufeff', '\u200b', '\u00fc', '\u{1f600}', '\u{e0061}', '*', '_', 'A', '0', "'", '[::1]'),
  fc.string({ unit: 'grapheme', maxLength: 3 }),
)
const pieces = (maxLength: number) => fc.array(piece, { maxLength }).map((parts) => parts.join(''))
const oddText = (limit: number) => fc.nat(3).map((over) => '\u{1f600}'.repeat(limit - 2 + over))
const oddNumber = fc.oneof(
  fc.integer({ min: -2, max: 40 }),
  fc.constantFrom(1.5, 2 ** 31, -(2 ** 31) - 1, 1e21),
)

const endpointSpec = fc.record(
  {
    url: fc.oneof(
      pieces(5),
      pieces(5).map((rest) => `https://${rest}`),
    ),
    eventTypes: fc.oneof(
      fc.array(fc.constantFrom('a', 'a.b', '*', 'b'), { maxLength: 4 }),
      fc.array(pieces(3), { minLength: 1, maxLength: 2 }),
    ),
    description: fc.oneof(pieces(4), oddText(200)),
    concurrency: oddNumber,
    signingSecret: fc.record({ name: pieces(4) }),
  },
  { requiredKeys: ['eventTypes'] },
)

const eventSpec = fc.record(
  {
    type: pieces(3),
    data: fc.jsonValue().filter((value) => value !== null),
    dataText: pieces(2),
    ttlSecondsAfterFinished: oddNumber,
  },
  { requiredKeys: ['type'] },
)

const time = fc
  .tuple(
    fc.constantFrom('2026', '0000', '99999', '26'),
    fc.constantFrom('01', '02', '00', '13', '1'),
    fc.constantFrom('01', '29', '30', '31', '32', '00'),
    fc.constantFrom('T', 't', ' ', ''),
    fc.constantFrom('00:00:00', '23:59:59', '23:59:60', '24:00:00', '12:60:00', '12:00'),
    fc.constantFrom('', '.5', '.123456789', '.'),
    fc.constantFrom('Z', 'z', '+00:00', '-23:59', '+23:59', '+0100', ''),
  )
  .map(
    ([year, month, day, t, clock, fraction, zone]) => `${year}-${month}-${day}${t}${clock}${fraction}${zone}`,
  )
const deliverySpec = fc.record({ writtenAt: time })

const credentialSpec = fc.record(
  {
    type: fc.constantFrom('token', 'ecr', 'TOKEN'),
    label: fc.oneof(pieces(3), oddText(100)),
    registry: fc.oneof(
      pieces(4),
      fc
        .array(fc.constantFrom('a', 'B', '0', '-', '.', ':', '[', ']', '::', '5000', '65536', 'localhost'), {
          maxLength: 6,
        })
        .map((parts) => parts.join('')),
    ),
    username: fc.oneof(pieces(3), oddText(255)),
    secretRef: fc.record({ name: pieces(3) }),
  },
  { requiredKeys: ['label'] },
)

const settingsSpec = fc.record(
  {
    region: fc.oneof(
      fc.constantFrom('eu-west-1', 'cn-north-1', 'us-gov-west-1', 'us-isob-east-1', 'eu-west-0'),
      pieces(3),
    ),
    roleArn: fc
      .tuple(fc.constantFrom('aws', 'aws-cn', 'aws-us-gov', 'aws-iso', 'aws-iso-b'), pieces(2))
      .map(([partition, name]) => `arn:${partition}:iam::123456789012:role/${name}`),
    kmsKeyId: fc.oneof(
      pieces(3).map((name) => `alias/${name}`),
      fc
        .tuple(fc.constantFrom('aws', 'aws-cn'), fc.constantFrom('eu-west-1', 'cn-north-1'))
        .map(([partition, region]) => `arn:${partition}:kms:${region}:123456789012:alias/a`),
    ),
    repositoryPrefix: pieces(3),
  },
  { requiredKeys: [] },
)

const boxService = fc.record(
  {
    name: fc.oneof(pieces(2), fc.constantFrom('api', 'db', 'web')),
    kind: fc.constantFrom('custom', 'catalog'),
    image: fc.oneof(
      pieces(4),
      fc
        .array(
          fc.constantFrom(
            'a',
            'B',
            '0',
            '-',
            '.',
            '_',
            '__',
            ':',
            '/',
            '@',
            'ghcr.io/',
            ':5000/',
            `@sha256:${'0'.repeat(64)}`,
          ),
          { minLength: 1, maxLength: 6 },
        )
        .map((parts) => parts.join('')),
    ),
    registryCredentialId: fc.oneof(pieces(2), fc.constantFrom('rc_a', 'rc_', 'rc_A')),
  },
  { requiredKeys: ['name', 'kind', 'image'] },
)

const templateSpec = fc.record(
  {
    services: fc.oneof(
      fc.array(boxService, { maxLength: 3 }),
      boxService.map((service) => [{ ...goodTemplate.spec.services[0], image: service.image }]),
    ),
    instanceRole: fc.record({ serviceAccountName: pieces(2) }),
    platform: fc.constantFrom('linux/amd64', 'linux', 'LINUX/amd64', 'linux/arm/v7'),
  },
  { requiredKeys: [] },
)

const rows: { kind: KindDefinition; good: object; specs: fc.Arbitrary<object> }[] = [
  {
    kind: webhookEndpointKind,
    good: {},
    specs: fc.oneof(
      endpointSpec,
      endpointSpec.map((spec) => ({ ...goodEndpoint.spec, ...spec })),
    ),
  },
  {
    kind: webhookEventKind,
    good: {},
    specs: fc.oneof(
      eventSpec,
      eventSpec.map((spec) => ({ ...goodEvent.spec, ...spec })),
    ),
  },
  { kind: registryCredentialKind, good: goodCredential.spec, specs: credentialSpec },
  { kind: secretsSettingsKind, good: goodSettings.spec, specs: settingsSpec },
  { kind: boxTemplateKind, good: goodTemplate.spec, specs: templateSpec },
  { kind: webhookDeliveryKind, good: goodDelivery.spec, specs: deliverySpec },
]

test.for(rows)('of any $kind.kind', async ({ kind, good, specs }) => {
  const path = `${pathOf(kind, 'default')}?dryRun=All`
  await fc.assert(
    fc.asyncProperty(specs, async (spec) => {
      const whole = { ...good, ...spec }
      const { status, body } = await api.call({
        method: 'POST',
        path,
        body: objectOf(kind, 'default', whole),
      })
      const parsed = kind.spec.safeParse(whole)
      expect({ taken: status === 201, why: parsed.error?.issues }, String(body.message)).toMatchObject({
        taken: parsed.success,
      })
    }),
    { numRuns: RUNS },
  )
})
