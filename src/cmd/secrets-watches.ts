/** What is watched for the secrets of organizations: no Secret, since that would need the right to see all of them. */
import { registryCredential, registryCredentials } from '../apis/registry-credential.ts'
import { secretsSettings, secretsSettingsResource } from '../apis/secrets-settings.ts'
import { Informer } from '../kube/informer.ts'
import type { InformerDependencies } from '../kube/reflector-options.ts'
import type { CredentialComponents } from './credential-controllers.ts'

/** Not started. */
export function createCredentialWatches(
  parts: CredentialComponents,
  needs: InformerDependencies,
): Informer<unknown>[] {
  const settings = new Informer(
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
  const credentials = new Informer(
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
  return [settings, credentials] as Informer<unknown>[]
}
