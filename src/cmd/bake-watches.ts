/** What is watched for bakes: templates, and, where there are bakes, the Jobs and pods that carry the label of one. */
import { boxTemplate, boxTemplates, TEMPLATE_LABEL } from '../apis/box-template.ts'
import { jobs, pods } from '../apis/core-kinds.ts'
import { type ObjectMeta, objectMeta, type ResourceType } from '../apis/meta.ts'
import { bakeSelector } from '../boxes/controller/bake-job.ts'
import { Informer } from '../kube/informer.ts'
import type { InformerDependencies } from '../kube/reflector-options.ts'
import type { BoxComponents } from './box-controller.ts'

/** Not started. */
export function createBoxWatches(
  parts: BoxComponents,
  needs: InformerDependencies,
  bakes: boolean,
): Informer<unknown>[] {
  const templates = new Informer(
    {
      type: boxTemplates,
      decode: (raw) => boxTemplate.parse(raw),
      handler: {
        applied: (object) => parts.templates.apply(object),
        deleted: (object) => parts.templates.remove(object),
      },
    },
    needs,
  )
  const runs = bakes ? [ofBakes(jobs, parts, needs), ofBakes(pods, parts, needs)] : []
  return [templates, ...runs] as Informer<unknown>[]
}

/** Only whose they are is held: the loop reads them itself. */
function ofBakes(
  type: ResourceType,
  parts: BoxComponents,
  needs: InformerDependencies,
): Informer<ObjectMeta> {
  const tell = (metadata: ObjectMeta) => wakeTemplate(parts, metadata)
  return new Informer(
    {
      type,
      query: { labelSelector: bakeSelector() },
      decode: (raw) => objectMeta.parse(raw.metadata),
      handler: { applied: tell, deleted: tell },
    },
    needs,
  )
}

/** A namespace that is no organization has no bakes, whatever labels there are in it. */
function wakeTemplate(parts: BoxComponents, { namespace = '', labels }: ObjectMeta): void {
  const name = labels?.[TEMPLATE_LABEL]
  if (name === undefined || parts.organizations.get(namespace) === undefined) return
  if (parts.templates.get(namespace, name)) parts.templateLoop.add(`${namespace}/${name}`)
}
