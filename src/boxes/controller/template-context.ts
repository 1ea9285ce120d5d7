/** What the loop of templates works with. */
import type { BoxTemplate } from '../../apis/box-template.ts'
import type { ResourceReader, ResourceWriter } from '../../kube/client.ts'
import type { EventRecorder } from '../../kube/event-recorder.ts'
import type { MutationCache } from '../../kube/mutation-cache.ts'
import type { Organizations } from '../../kube/organizations.ts'
import type { BakeMetrics } from '../../lib/metrics.ts'
import type { Clock, Random } from '../../lib/ports-clock.ts'
import type { Logger } from '../../lib/ports-log.ts'
import type { BakeSettings } from './bake-job.ts'
import type { BakeLimits, BakeSlots } from './limits.ts'
import type { TemplateWriter } from './template-writer.ts'

export type TemplateContext = {
  resources: ResourceReader & ResourceWriter
  book: MutationCache<BoxTemplate>
  writer: TemplateWriter
  organizations: Organizations
  settings: Omit<BakeSettings, 'image'> & {
    image: string | undefined
    limits: BakeLimits
    /** Of one organization. */
    maxTemplates: number
  }
  slots: BakeSlots
  events: EventRecorder
  metrics: BakeMetrics
  clock: Clock
  random: Random
  log: Logger
}
