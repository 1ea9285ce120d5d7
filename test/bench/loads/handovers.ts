/** Credentials with the Secrets that hand their values over, as `kubectl apply` makes them. */
import { randomBytes } from 'node:crypto'
import { secrets } from '../../../src/apis/core-kinds.ts'
import { API_VERSION } from '../../../src/apis/meta.ts'
import {
  REGISTRY_SECRET_KEY,
  REGISTRY_SECRET_TYPE,
  registryCredentialKind,
  registryCredentials,
} from '../../../src/apis/registry-credential.ts'
import type { ResourceWriter } from '../../../src/kube/client.ts'

export type Handover = { namespace: string; name: string }

const WRITERS = 16

/**
 * One organization after the other: who comes first must not be served first.
 * @returns when each organization asked for the first time, milliseconds since 1970
 */
export async function handOver(
  api: ResourceWriter,
  handovers: readonly Handover[],
): Promise<ReadonlyMap<string, number>> {
  const waiting = [...handovers]
  const askedAt = new Map<string, number>()
  const work = async () => {
    for (let one = waiting.shift(); one !== undefined; one = waiting.shift()) {
      if (!askedAt.has(one.namespace)) askedAt.set(one.namespace, Date.now())
      await makeOne(api, one)
    }
  }
  await Promise.all(Array.from({ length: WRITERS }, work))
  return askedAt
}

async function makeOne(api: ResourceWriter, metadata: Handover): Promise<void> {
  const value = randomBytes(30).toString('base64url')
  await api.create(secrets, {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { ...metadata },
    type: REGISTRY_SECRET_TYPE,
    data: { [REGISTRY_SECRET_KEY]: Buffer.from(value).toString('base64') },
  })
  const spec = { type: 'token', label: metadata.name, registry: 'ghcr.io', username: 'bot' }
  await api.create(registryCredentials, {
    apiVersion: API_VERSION,
    kind: registryCredentialKind.kind,
    metadata: { ...metadata },
    spec: { ...spec, secretRef: { name: metadata.name } },
  })
}
