import type { ResourceWriter } from '../../src/kube/client.ts'
import type { EventRecorder, RecordedEvent } from '../../src/kube/event-recorder.ts'
import { createEventRecorder } from '../../src/kube/recorder.ts'
import type { Clock } from '../../src/lib/ports-clock.ts'
import type { Logger } from '../../src/lib/ports-log.ts'
import { createRandom } from '../../src/lib/random.ts'

/** `about` is the name of the object. */
export type SeenEvent = RecordedEvent & { about: string }

/** Adds Events to `seen`, and writes them to the API server where that is given. */
export function seeingRecorder(
  seen: SeenEvent[],
  write?: { api: ResourceWriter; clock: Clock; log: Logger },
): EventRecorder {
  const writer = write && createEventRecorder({ ...write, reporter: 'test', random: createRandom() })
  return {
    record(about, event) {
      seen.push({ about: about.metadata.name, ...event })
      writer?.record(about, event)
    },
  }
}
