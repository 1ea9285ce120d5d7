/** Writes of the status of BoxTemplates by their controller. One that is gone takes its Jobs with it, since it owns them. */
import { type BoxTemplate, boxTemplate, boxTemplateKind, boxTemplates } from '../../apis/box-template.ts'
import { API_VERSION } from '../../apis/meta.ts'
import type { ResourceReader, ResourceWriter } from '../../kube/client.ts'
import type { MutationCache } from '../../kube/mutation-cache.ts'
import { ObjectWriter } from '../../kube/object-writer.ts'

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
