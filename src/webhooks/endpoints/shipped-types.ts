/** The event types that ship are there from the start; what an installation has made of one that is there stays. */
import { builtinEventTypes } from '../../apis/builtin-event-types.ts'
import { eventTypes } from '../../apis/event-type.ts'
import { isApiError, type RawObject, type ResourceWriter } from '../../kube/client.ts'
import type { Logger } from '../../lib/ports-log.ts'

/** @param isKnown whether there is a type of this name; a failure is told, and made good at the next start */
export async function ensureBuiltinEventTypes(
  { api, log }: { api: ResourceWriter; log: Logger },
  isKnown: (name: string) => boolean,
): Promise<void> {
  for (const type of builtinEventTypes.filter(({ metadata }) => !isKnown(metadata.name))) {
    try {
      await api.create(eventTypes, { ...type, metadata: { ...type.metadata } } satisfies RawObject)
      log.info('Made an event type that ships', { name: type.metadata.name })
    } catch (error) {
      if (isApiError(error, 'AlreadyExists')) continue
      log.warn('An event type that ships could not be made', { name: type.metadata.name, error })
    }
  }
}
