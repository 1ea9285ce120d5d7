/** Writes of RegistryCredentials by their controller. */
import { API_VERSION } from '../../apis/meta.ts'
import {
  PARAMETER_FINALIZER,
  type RegistryCredential,
  registryCredential,
  registryCredentialKind,
  registryCredentials,
} from '../../apis/registry-credential.ts'
import type { ResourceReader, ResourceWriter } from '../../kube/client.ts'
import type { MutationCache } from '../../kube/mutation-cache.ts'
import { ObjectWriter } from '../../kube/object-writer.ts'

export function credentialEventTarget({ metadata }: RegistryCredential) {
  return { apiVersion: API_VERSION, kind: registryCredentialKind.kind, metadata }
}

export function hasParameterFinalizer({ metadata }: RegistryCredential): boolean {
  return metadata.finalizers?.includes(PARAMETER_FINALIZER) ?? false
}

export class CredentialWriter extends ObjectWriter<RegistryCredential> {
  constructor(resources: ResourceReader & ResourceWriter, book: MutationCache<RegistryCredential>) {
    super({
      resources,
      type: registryCredentials,
      decode: (raw) => registryCredential.parse(raw),
      cache: book,
    })
  }

  async addFinalizer(credential: RegistryCredential): Promise<RegistryCredential> {
    return await this.updateFinalizers(credential, [
      ...(credential.metadata.finalizers ?? []),
      PARAMETER_FINALIZER,
    ])
  }

  async removeFinalizer(credential: RegistryCredential): Promise<RegistryCredential> {
    const held = credential.metadata.finalizers ?? []
    return await this.updateFinalizers(
      credential,
      held.filter((name) => name !== PARAMETER_FINALIZER),
    )
  }
}
