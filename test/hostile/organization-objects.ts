/** Reads the stored objects of an organization. */

import { secrets } from '../../src/apis/core-kinds.ts'
import { type KindDefinition, resourceType } from '../../src/apis/meta.ts'
import { webhookDeliveries, webhookDelivery } from '../../src/apis/webhook-delivery.ts'
import type { RawObject, ResourceReader } from '../../src/kube/client.ts'
import { signingSecretName } from '../../src/webhooks/endpoints/directory.ts'
import { readKeys } from '../../src/webhooks/endpoints/signing-keys.ts'
import { kinds } from '../../tools/docgen/crd.ts'
import { OPERATOR_NAMESPACE } from '../support/installation.ts'
import { listAll } from '../support/list-all.ts'

export async function objectsOf(
  api: ResourceReader,
  namespace: string,
  of: readonly KindDefinition[] = kinds,
): Promise<RawObject[]> {
  const types = of.map(resourceType).filter(({ namespaced }) => namespaced)
  return (await Promise.all(types.map((type) => listAll(api, type, { namespace })))).flat()
}

export async function signingSecretsOf(
  api: ResourceReader,
  namespace: string,
  endpoints: readonly string[],
): Promise<string[]> {
  const read = async (name: string) => {
    const ref = { namespace: OPERATOR_NAMESPACE, name: signingSecretName(namespace, name) }
    return readKeys(await api.get(secrets, ref)).keys.keys.map(({ secret }) => secret)
  }
  return (await Promise.all(endpoints.map(read))).flat()
}

/** Attempts of all deliveries of an endpoint; NaN if one does not wait for its next. */
export async function attemptsOf(api: ResourceReader, namespace: string, endpoint: string): Promise<number> {
  const all = (await listAll(api, webhookDeliveries, { namespace })).map((raw) => webhookDelivery.parse(raw))
  return all
    .filter(({ spec }) => spec.endpoint === endpoint)
    .reduce(
      (sum, { status }) => sum + (status?.state === 'retrying' ? (status.attemptCount ?? 0) : Number.NaN),
      0,
    )
}
