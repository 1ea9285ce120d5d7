/** A secret in a wrong field is rejected, and is not in the error, which terminals, logs and CI show. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { KindDefinition } from '../../src/apis/meta.ts'
import { registryCredentialKind } from '../../src/apis/registry-credential.ts'
import { secretsSettingsKind } from '../../src/apis/secrets-settings.ts'
import { type ClusterApi, connect, objectOf, pathOf } from './cluster-api.ts'
import { goodCredential } from './samples/registry-credential.ts'
import { goodSettings } from './samples/secrets-settings.ts'

const SECRET = 'ghp_Zm9yLW5vYm9keQ'

let api: ClusterApi
beforeAll(() => {
  api = connect()
})
afterAll(() => api.close())

type Given = { kind: KindDefinition; name: string; spec: object; wrong: object }

const ofCredential = (wrong: object): Given => ({ kind: registryCredentialKind, ...goodCredential, wrong })
const ofSettings = (wrong: object): Given => ({ kind: secretsSettingsKind, ...goodSettings, wrong })

test.for([
  ofCredential({ username: `bot:${SECRET}` }),
  ofCredential({ username: SECRET.repeat(20) }),
  ofCredential({ username: { value: SECRET } }),
  ofCredential({ username: [SECRET] }),
  ofCredential({ registry: `https://bot:${SECRET}@ghcr.io` }),
  ofCredential({ registry: SECRET }),
  ofCredential({ registry: SECRET.repeat(20) }),
  ofCredential({ label: SECRET.repeat(20) }),
  ofCredential({ secretRef: { name: SECRET } }),
  ofCredential({ secretRef: { name: SECRET.repeat(20) } }),
  ofCredential({ secretRef: SECRET }),
  ofCredential({ secretRef: { name: 'a', secret: SECRET } }),
  ofCredential({ secret: SECRET }),
  ofSettings({ region: SECRET }),
  ofSettings({ roleArn: SECRET }),
  ofSettings({ roleArn: SECRET.repeat(50) }),
  ofSettings({ kmsKeyId: SECRET }),
  ofSettings({ secretAccessKey: SECRET }),
])('$kind.kind with $wrong', async ({ kind, name, spec, wrong }) => {
  const path = `${pathOf(kind, 'default')}?dryRun=All&fieldValidation=Strict`
  const body = objectOf(kind, name, { ...spec, ...wrong })
  const answer = await api.call({ method: 'POST', path, body })
  expect(answer.status).toBeOneOf([400, 422])
  expect(answer.body.message).not.toBe('')
  expect(JSON.stringify(answer.body)).not.toContain(SECRET)
})
