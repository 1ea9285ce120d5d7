/** What the loop of templates works with. */
import type { BoxTemplate } from '../../api/box-template.ts'
import type { BakeSettings } from '../../domain/bake-job.ts'
import type { Clock, Random } from '../../ports/clock.ts'
import type { EventRecorder } from '../../ports/event-recorder.ts'
import type { ResourceReader, ResourceWriter } from '../../ports/kubernetes.ts'
import type { Logger } from '../../ports/log.ts'
import type { BakeMetrics } from '../../ports/metrics.ts'
import type { MutationCache } from '../../runtime/versioned-book.ts'
import type { Organizations } from '../organizations.ts'
import type { BakeLimits, BakeSlots } from './bake-turns.ts'
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
