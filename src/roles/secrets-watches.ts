/** What is watched for the secrets of organizations: no Secret, since that would need the right to see all of them. */
import { registryCredential, registryCredentials } from '../api/registry-credential.ts'
import { secretsSettings, secretsSettingsResource } from '../api/secrets-settings.ts'
import { Reflector } from '../runtime/reflector.ts'
import type { ReflectorNeeds } from '../runtime/reflector-options.ts'
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
  return [settings, credentials] as Reflector<unknown>[]
}
