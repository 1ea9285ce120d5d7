import type { ResourceWriter } from '../../src/kube/client.ts'
import { AggregatingRecorder, type EventRecorder, type RecordedEvent } from '../../src/kube/recorder.ts'
import type { Logger } from '../../src/lib/log.ts'
import { type Clock, createRandom } from '../../src/lib/time.ts'
import { NO_RECORDER_METRICS } from './no-metrics.ts'

/** `about` is the name of the object. */
export type SeenEvent = RecordedEvent & { about: string }

/** Adds Events to `seen`, and writes them to an API server if one is given. */
export function seeingRecorder(
  seen: SeenEvent[],
  write?: { api: ResourceWriter; clock: Clock; log: Logger },
): EventRecorder {
  const writer =
    write &&
    new AggregatingRecorder({
      ...write,
      reporter: 'test',
      random: createRandom(),
      metrics: NO_RECORDER_METRICS,
    })
  return {
    record(about, event) {
      seen.push({ about: about.metadata.name, ...event })
      writer?.record(about, event)
    },
  }
}
