/** Writes of the status of BoxTemplates by their controller, each on the version that was read. */
import {
  type BoxTemplate,
  type BoxTemplateStatus,
  boxTemplate,
  boxTemplateKind,
  boxTemplates,
} from '../../api/box-template.ts'
import { API_VERSION } from '../../api/meta.ts'
import { isApiError, type ResourceReader, type ResourceWriter } from '../../ports/kubernetes.ts'
import { statusPatch } from '../../runtime/status-patch.ts'
import type { VersionedBook } from '../../runtime/versioned-book.ts'

/** It is gone; its Jobs go with it, since it owns them. */
export class TemplateGoneError extends Error {
  override readonly name = 'TemplateGoneError'
}

export function aboutTemplate({ metadata }: BoxTemplate) {
  return { apiVersion: API_VERSION, kind: boxTemplateKind.kind, metadata }
}

/** All methods @throws TemplateGoneError, ApiError (`Conflict` included: read again) */
export class TemplateWriter {
  readonly #resources: ResourceReader & ResourceWriter
  readonly #book: VersionedBook<BoxTemplate>

  constructor(resources: ResourceReader & ResourceWriter, book: VersionedBook<BoxTemplate>) {
    this.#resources = resources
    this.#book = book
  }

  /** As it is now, whatever the watch has shown. */
  async read({ metadata }: BoxTemplate): Promise<BoxTemplate> {
    const { namespace, name, uid } = metadata
    return await this.#learn(uid, () => this.#resources.get(boxTemplates, { namespace, name }))
  }

  /** Nothing is written where nothing changed. */
  async status(template: BoxTemplate, desired: BoxTemplateStatus): Promise<BoxTemplate> {
    const status = statusPatch(template.status ?? {}, desired)
    if (!status) return template
    const { namespace, name, uid, resourceVersion } = template.metadata
    const patch = { metadata: { resourceVersion }, status }
    return await this.#learn(uid, () =>
      this.#resources.patch(boxTemplates, { namespace, name }, patch, { subresource: 'status' }),
    )
  }

  async #learn(uid: string, call: () => Promise<unknown>): Promise<BoxTemplate> {
    try {
      const template = boxTemplate.parse(await call())
      if (template.metadata.uid !== uid) throw new TemplateGoneError()
      this.#book.learn(template)
      return template
    } catch (error) {
      if (isApiError(error, 'NotFound')) throw new TemplateGoneError()
      throw error
    }
  }
}
