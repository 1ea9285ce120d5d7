import type { BakeOrder } from '../../apis/bake-order.ts'
import type { BoxCredential, BoxCredentials } from '../../apis/box-credentials.ts'
import { parseImageReference } from '../image-reference.ts'

/** Which credential opens which repository, for the running box: without a secret. @param now in milliseconds */
export function buildCredentialMap(
  { template, bake, services, orderedAt }: BakeOrder,
  now: number,
): BoxCredentials {
  const credentials = new Map<string, BoxCredential>()
  for (const { image, credential } of services) {
    const { reference } = parseImageReference(image)
    if (!credential || !reference) continue
    const known = credentials.get(credential.id)
    const repositories = new Set([...(known?.repositories ?? []), reference.repository])
    const { id, uid, generation, registry } = credential
    const shared = {
      id,
      ...(uid === undefined ? {} : { uid }),
      ...(generation === undefined ? {} : { generation }),
      registry,
      repositories: [...repositories].sort(),
    }
    const { username, parameter } = credential
    if (credential.type === 'ecr') credentials.set(credential.id, { ...shared, type: 'ecr' })
    else if (username !== undefined && parameter !== undefined)
      credentials.set(credential.id, { ...shared, type: 'token', username, parameter })
  }
  const { namespace, name } = template
  const bakedAt = new Date(now).toISOString()
  return {
    version: 1,
    template: { namespace, name },
    bake,
    ...(orderedAt === undefined ? {} : { orderedAt }),
    bakedAt,
    credentials: [...credentials.values()],
  }
}
