/** Writes of SecretsSettings by their controller. An object that is gone is no error. */
import { API_VERSION } from '../../apis/meta.ts'
import {
  ACCOUNT_FINALIZER,
  type SecretsSettings,
  secretsSettings,
  secretsSettingsKind,
  secretsSettingsResource,
} from '../../apis/secrets-settings.ts'
import { isApiError, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import type { MutationCache } from '../../kube/mutation-cache.ts'
import { statusPatch } from '../../kube/status.ts'

export function settingsEventTarget({ metadata }: SecretsSettings) {
  return { apiVersion: API_VERSION, kind: secretsSettingsKind.kind, metadata }
}

export class SettingsWriter {
  readonly #resources: ResourceReader & ResourceWriter
  readonly #book: MutationCache<SecretsSettings>

  constructor(resources: ResourceReader & ResourceWriter, book: MutationCache<SecretsSettings>) {
    this.#resources = resources
    this.#book = book
  }

  /** @returns as written; undefined when it is gone @throws ApiError, `Conflict` included */
  async addFinalizer(settings: SecretsSettings): Promise<SecretsSettings | undefined> {
    return await this.#finalizers(settings, [...finalizersOf(settings), ACCOUNT_FINALIZER])
  }

  /** @throws ApiError, `Conflict` included */
  async removeFinalizer(settings: SecretsSettings): Promise<void> {
    await this.#finalizers(
      settings,
      finalizersOf(settings).filter((name) => name !== ACCOUNT_FINALIZER),
    )
  }

  /** @throws ApiError, `Conflict` included */
  async status(settings: SecretsSettings, desired: object): Promise<void> {
    const status = statusPatch(settings.status ?? {}, desired)
    if (status) await this.#patch(settings, { status }, { subresource: 'status' })
  }

  /** Has the book know it as it is now. @throws ApiError */
  async refresh({ metadata: { namespace, name } }: SecretsSettings): Promise<void> {
    try {
      this.#book.announce(
        secretsSettings.parse(await this.#resources.get(secretsSettingsResource, { namespace, name })),
      )
    } catch (error) {
      if (!isApiError(error, 'NotFound')) throw error
    }
  }

  async #finalizers(settings: SecretsSettings, finalizers: string[]): Promise<SecretsSettings | undefined> {
    return await this.#patch(settings, { metadata: { finalizers } }, {})
  }

  async #patch(
    { metadata: { namespace, name, resourceVersion } }: SecretsSettings,
    patch: { metadata?: object; status?: object },
    how: { subresource?: 'status' },
  ): Promise<SecretsSettings | undefined> {
    const guarded = { ...patch, metadata: { ...patch.metadata, resourceVersion } }
    try {
      const written = secretsSettings.parse(
        await this.#resources.patch(secretsSettingsResource, { namespace, name }, guarded, how),
      )
      this.#book.announce(written)
      return written
    } catch (error) {
      if (isApiError(error, 'NotFound')) return undefined
      throw error
    }
  }
}

export function finalizersOf({ metadata }: SecretsSettings): string[] {
  return metadata.finalizers ?? []
}
