/** What is watched for the secrets of organizations. */
import { secrets } from '../api/core-kinds.ts'
import type { HandoverOutline } from '../api/handover-outline.ts'
import { REGISTRY_SECRET_TYPE, registryCredential, registryCredentials } from '../api/registry-credential.ts'
import { secretsSettings, secretsSettingsResource } from '../api/secrets-settings.ts'
import { readHandoverOutline } from '../controllers/credential/handover-secret.ts'
import { Reflector, type ReflectorNeeds } from '../runtime/reflector.ts'
import type { SecretsParts } from './secrets-parts.ts'

/** Not started. */
export function createSecretsWatches(parts: SecretsParts, needs: ReflectorNeeds): Reflector<unknown>[] {
  const settings = new Reflector(
    {
      type: secretsSettingsResource,
      decode: (raw) => secretsSettings.parse(raw),
      handler: {
        applied: (object) => parts.settings.apply(object),
        deleted: (object) => parts.settings.remove(object),
      },
    },
    needs,
  )
  const credentials = new Reflector(
    {
      type: registryCredentials,
      decode: (raw) => registryCredential.parse(raw),
      handler: {
        applied: (object) => parts.credentials.apply(object),
        deleted: (object) => parts.credentials.remove(object),
      },
    },
    needs,
  )
  const handedOver = new Reflector(
    {
      type: secrets,
      query: { fieldSelector: `type=${REGISTRY_SECRET_TYPE}` },
      // Nothing that is in them stays in memory.
      decode: readHandoverOutline,
      handler: { applied: (secret) => wakeReferrers(parts, secret) },
    },
    needs,
  )
  return [settings, credentials, handedOver] as Reflector<unknown>[]
}

function wakeReferrers(parts: SecretsParts, { metadata }: HandoverOutline): void {
  const { namespace = '', name } = metadata
  for (const credential of parts.credentials.in(namespace)) {
    if (credential.spec.secretRef?.name !== name) continue
    parts.credentialLoop.add(`${namespace}/${credential.metadata.name}`)
  }
}
