/** The API server accepts and rejects the same objects as the schemas, with helpful messages. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { kinds } from '../../tools/docgen/crd.ts'
import { type ClusterApi, connect, objectOf, pathOf } from './cluster-api.ts'
import { templateSamples } from './samples/box-template.ts'
import { eventTypeSamples } from './samples/event-type.ts'
import { credentialSamples } from './samples/registry-credential.ts'
import type { SpecSample } from './samples/sample.ts'
import { settingsSamples } from './samples/secrets-settings.ts'
import { segmentSamples } from './samples/segments.ts'
import { deliverySamples } from './samples/webhook-delivery.ts'
import { endpointSamples } from './samples/webhook-endpoint.ts'
import { eventSamples } from './samples/webhook-event.ts'

const samples: SpecSample[] = [
  ...endpointSamples,
  ...deliverySamples,
  ...eventSamples,
  ...eventTypeSamples,
  ...segmentSamples,
  ...credentialSamples,
  ...settingsSamples,
  ...templateSamples,
]

let api: ClusterApi
beforeAll(() => {
  api = connect()
})
afterAll(() => api.close())

describe.for(kinds)('$kind', (kind) => {
  const ofKind = samples.filter((sample) => sample.kind === kind)
  const taken = ofKind.filter((sample) => !sample.refusal)
  const refused = ofKind.filter((sample) => sample.refusal)
  const both = ofKind.filter((sample) => !sample.serverOnly)

  test.for(taken)('is taken: $given', async (sample) => {
    expect(await ask(sample)).toMatchObject({ status: 201 })
  })

  test.for(refused)('is refused: $given', async (sample) => {
    const { status, body } = await ask(sample)
    expect({ status, message: body.message }).toEqual({
      status: expect.toBeOneOf([400, 422]),
      message: expect.any(String),
    })
    for (const words of sample.refusal ?? []) expect(body.message).toContain(words)
  })

  test.for(both)('gets the same verdict from the schema: $given', ({ spec, refusal }) => {
    expect(kind.spec.safeParse(JSON.parse(JSON.stringify(spec))).success).toBe(refusal === undefined)
  })
})

/** As kubectl does by default: unknown fields are rejected. */
function ask({ kind, name, spec }: SpecSample) {
  const path = `${pathOf(kind, 'default')}?dryRun=All&fieldValidation=Strict`
  return api.call({ method: 'POST', path, body: objectOf(kind, name, spec) })
}
