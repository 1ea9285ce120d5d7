/** Writes of the status of BoxTemplates by their controller. One that is gone takes its Jobs with it, since it owns them. */
import { type BoxTemplate, boxTemplate, boxTemplateKind, boxTemplates } from '../../api/box-template.ts'
import { API_VERSION } from '../../api/meta.ts'
import type { ResourceReader, ResourceWriter } from '../../ports/kubernetes.ts'
import { ObjectWriter } from '../../runtime/object-writer.ts'
import type { MutationCache } from '../../runtime/versioned-book.ts'

export type TemplateWriter = Pick<ObjectWriter<BoxTemplate>, 'read' | 'updateStatus'>

export function createTemplateWriter(
  resources: ResourceReader & ResourceWriter,
  book: MutationCache<BoxTemplate>,
): TemplateWriter {
  return new ObjectWriter({
    resources,
    type: boxTemplates,
    decode: (raw) => boxTemplate.parse(raw),
    cache: book,
  })
}

export function templateReference({ metadata }: BoxTemplate) {
  return { apiVersion: API_VERSION, kind: boxTemplateKind.kind, metadata }
}
