/** Registry credentials over REST: the resources that kubectl and Git see as well. */
import { CREDENTIAL_PREFIX } from '../apis/identifiers.ts'
import type { RegistryCredential } from '../apis/registry-credential.ts'
import { KeyedMutex } from '../lib/keyed-mutex.ts'
import { changeCredential, removeCredential } from './change-credential.ts'
import type { CredentialsContext, CredentialsOptions } from './context.ts'
import type {
  ChangedCredential,
  CreatedCredential,
  CredentialChange,
  CredentialDraft,
  CredentialId,
  CredentialResource,
  RegistryCredentials,
  TaggedCredential,
} from './credential-resource.ts'
import { CredentialCreation } from './credentials.ts'
import { resourceOf, taggedOf } from './credentials-credential-resource.ts'
import type { Conditional, Keyed } from './endpoint-resource.ts'
import { cloudRefusal } from './http/cloud-refusal.ts'
import { withRefusals } from './http/refusals.ts'
import { refuseWhileStale } from './http/refuse-behind.ts'
import { credentialRef, readCredential } from './live-credential.ts'
import { SecretStore } from './secret-store.ts'

export class CredentialService implements RegistryCredentials {
  readonly #ctx: CredentialsContext
  readonly #creation: CredentialCreation

  constructor(options: CredentialsOptions) {
    this.#ctx = { ...options, store: new SecretStore(options), mutex: new KeyedMutex() }
    this.#creation = new CredentialCreation(this.#ctx)
  }

  create(organization: string, draft: CredentialDraft, how: Keyed): Promise<CreatedCredential> {
    return refusingAll(() => this.#creation.create(organization, draft, how.idempotencyKey))
  }

  /** From what the watch has shown, which is within milliseconds what there is; own writes are in it at once. */
  list(
    organization: string,
    { limit, after }: { limit: number; after?: string | undefined },
  ): Promise<{ registryCredentials: CredentialResource[]; next?: string }> {
    return refusingAll(async () => {
      const { directory, behind } = this.#ctx
      refuseWhileStale('Which registry credentials there are', behind)
      const found = directory
        .inNamespace(organization)
        .filter(({ metadata }) => isNext(metadata, after))
        .sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1))
      const registryCredentials = found.slice(0, limit).map(resourceOf)
      const last = registryCredentials.at(-1)
      return found.length > limit && last ? { registryCredentials, next: last.id } : { registryCredentials }
    })
  }

  get(id: CredentialId): Promise<TaggedCredential> {
    return refusingAll(async () => taggedOf((await readCredential(this.#ctx, credentialRef(id))).credential))
  }

  change(id: CredentialId, change: CredentialChange, how: Keyed & Conditional): Promise<ChangedCredential> {
    return refusingAll(() => changeCredential(this.#ctx, id, change, how))
  }

  remove(id: CredentialId, how: Conditional): Promise<void> {
    return refusingAll(() => removeCredential(this.#ctx, id, how))
  }
}

/** What the cloud says comes out as a refusal, too. */
function refusingAll<T>(work: () => Promise<T>): Promise<T> {
  return withRefusals(async () => {
    try {
      return await work()
    } catch (error) {
      throw cloudRefusal(error)
    }
  })
}

/** Not one that is being deleted. @param after the last id that the reader has */
function isNext(
  { name, deletionTimestamp }: RegistryCredential['metadata'],
  after: string | undefined,
): boolean {
  return deletionTimestamp === undefined && (after === undefined || CREDENTIAL_PREFIX + name > after)
}
