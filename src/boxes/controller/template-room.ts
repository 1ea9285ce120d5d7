/** How many templates an organization may have: those beyond that, the youngest, are not looked after. */
import type { BoxTemplate } from '../../apis/box-template.ts'
import type { MutationCache } from '../../kube/mutation-cache.ts'

const CODE = 'too_many_templates'

/** Whether there are as many older ones as there may be. Of those of one second the first by name is the oldest. */
export function exceedsTemplateQuota(
  templates: Pick<MutationCache<BoxTemplate>, 'in'>,
  { metadata }: BoxTemplate,
  limit: number,
): boolean {
  const own = ageOf(metadata)
  let older = 0
  for (const other of templates.in(metadata.namespace ?? '')) {
    if (other.metadata.deletionTimestamp === undefined && ageOf(other.metadata) < own) older += 1
    if (older >= limit) return true
  }
  return false
}

/** Whether the status of a template says that there are too many, and nothing has been asked of it since. */
export function isReportedOverQuota({ metadata, status }: BoxTemplate, rebake: string | undefined): boolean {
  return (
    status?.bake?.failure?.code === CODE &&
    status.observedGeneration === metadata.generation &&
    status.bake.observedRebake === rebake
  )
}

/** Those that there may be room for when another one goes. */
export function templatesOverQuota(
  templates: Pick<MutationCache<BoxTemplate>, 'in'>,
  { metadata, status }: BoxTemplate,
): BoxTemplate[] {
  if (status?.bake?.failure?.code === CODE) return []
  return templates.in(metadata.namespace ?? '').filter((other) => other.status?.bake?.failure?.code === CODE)
}

function ageOf({ creationTimestamp = '', name }: BoxTemplate['metadata']): string {
  return `${creationTimestamp} ${name}`
}
