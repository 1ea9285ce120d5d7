import { createdAtOf } from '../apis/created-at.ts'
import { CREDENTIAL_PREFIX } from '../apis/identifiers.ts'
import type { RegistryCredential } from '../apis/registry-credential.ts'
import { parseRegistryHost } from '../apis/registry-host.ts'
import { etagOf } from '../lib/etag.ts'
import type { CredentialResource, TaggedCredential } from './credential-resource.ts'

/** A credential as its owner sees it over REST. */
export function resourceOf({ metadata, spec, status }: RegistryCredential): CredentialResource {
  const { label, registry, type, username } = spec
  const createdAt = createdAtOf(metadata)
  return {
    id: CREDENTIAL_PREFIX + metadata.name,
    label,
    // One that was made with kubectl may be written otherwise; a condition says so where it is no host.
    registry: parseRegistryHost(registry).host ?? registry,
    type,
    ...(username === undefined ? {} : { username }),
    createdAt,
    updatedAt: status?.updatedAt === undefined ? createdAt : new Date(status.updatedAt).toISOString(),
  }
}

export function taggedOf(credential: RegistryCredential): TaggedCredential {
  return { credential: resourceOf(credential), etag: etagOf(credential.metadata) }
}
