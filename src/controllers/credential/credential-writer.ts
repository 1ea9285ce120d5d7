/** Writes of RegistryCredentials by their controller, each on the version that was read. */
import { API_VERSION } from '../../api/meta.ts'
import {
  PARAMETER_FINALIZER,
  type RegistryCredential,
  registryCredential,
  registryCredentialKind,
  registryCredentials,
} from '../../api/registry-credential.ts'
import { isApiError, type ResourceReader, type ResourceWriter } from '../../ports/kubernetes.ts'
import { statusPatch } from '../../runtime/status-patch.ts'
import type { VersionedBook } from '../../runtime/versioned-book.ts'

/** It is gone; nothing is left to do. */
export class CredentialGoneError extends Error {
  override readonly name = 'CredentialGoneError'
}

export function aboutCredential({ metadata }: RegistryCredential) {
  return { apiVersion: API_VERSION, kind: registryCredentialKind.kind, metadata }
}

export function isHeld({ metadata }: RegistryCredential): boolean {
  return metadata.finalizers?.includes(PARAMETER_FINALIZER) ?? false
}

/** All methods @throws CredentialGoneError, ApiError (`Conflict` included: read again) */
export class CredentialWriter {
  readonly #resources: ResourceReader & ResourceWriter
  readonly #book: VersionedBook<RegistryCredential>

  constructor(resources: ResourceReader & ResourceWriter, book: VersionedBook<RegistryCredential>) {
    this.#resources = resources
    this.#book = book
  }

  /** As it is now, whatever the watch has shown. */
  async read({ metadata }: RegistryCredential): Promise<RegistryCredential> {
    const { namespace, name, uid } = metadata
    return await this.#learn(uid, () => this.#resources.get(registryCredentials, { namespace, name }))
  }

  async hold(credential: RegistryCredential): Promise<RegistryCredential> {
    const finalizers = [...(credential.metadata.finalizers ?? []), PARAMETER_FINALIZER]
    return await this.#patch(credential, { metadata: { finalizers } }, {})
  }

  async release(credential: RegistryCredential): Promise<RegistryCredential> {
    const held = credential.metadata.finalizers ?? []
    const finalizers = held.filter((name) => name !== PARAMETER_FINALIZER)
    return await this.#patch(credential, { metadata: { finalizers } }, {})
  }

  /** Nothing is written where nothing changed. */
  async status(credential: RegistryCredential, desired: object): Promise<RegistryCredential> {
    const status = statusPatch(credential.status ?? {}, desired)
    return status ? await this.#patch(credential, { status }, { subresource: 'status' }) : credential
  }

  async #patch(
    { metadata: { namespace, name, uid, resourceVersion } }: RegistryCredential,
    patch: { metadata?: object; status?: object },
    how: { subresource?: 'status' },
  ): Promise<RegistryCredential> {
    const guarded = { ...patch, metadata: { ...patch.metadata, resourceVersion } }
    return await this.#learn(uid, () =>
      this.#resources.patch(registryCredentials, { namespace, name }, guarded, how),
    )
  }

  async #learn(uid: string, call: () => Promise<unknown>): Promise<RegistryCredential> {
    try {
      const credential = registryCredential.parse(await call())
      if (credential.metadata.uid !== uid) throw new CredentialGoneError()
      this.#book.learn(credential)
      return credential
    } catch (error) {
      if (isApiError(error, 'NotFound')) throw new CredentialGoneError()
      throw error
    }
  }
}
