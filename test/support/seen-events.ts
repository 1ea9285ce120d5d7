import { createEventRecorder } from '../../src/adapters/kubernetes/event-recorder.ts'
import { createRandom } from '../../src/adapters/system/random.ts'
import type { Clock } from '../../src/ports/clock.ts'
import type { EventRecorder, RecordedEvent } from '../../src/ports/event-recorder.ts'
import type { ResourceWriter } from '../../src/ports/kubernetes.ts'
import type { Logger } from '../../src/ports/log.ts'

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
