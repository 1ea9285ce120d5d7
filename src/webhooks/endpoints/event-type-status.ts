import { type EventType, type EventTypeStatus, eventTypes, typeNameOf } from '../../apis/event-type.ts'
import type { ResourceWriter } from '../../kube/client.ts'
import { noRequeue, type ReconcileResult, type Reconciler } from '../../kube/reconcile-loop.ts'
import { type ConditionUpdate, mergeConditions, statusPatch, whileTrue } from '../../kube/status.ts'
import type { Clock } from '../../lib/time.ts'
import type { EventTypeStore } from './event-types.ts'

/** Writes the status of event types: of two objects with one type, the older one counts, and the newer one says so. */

export type EventTypeReconcilerOptions = { api: ResourceWriter; catalogue: EventTypeStore; clock: Clock }

export class EventTypeReconciler implements Reconciler {
  readonly #options: EventTypeReconcilerOptions

  constructor(options: EventTypeReconcilerOptions) {
    this.#options = options
  }

  /** @param name of the object */
  async reconcile(name: string): Promise<ReconcileResult> {
    const { api, catalogue, clock } = this.#options
    const object = catalogue.object(name)
    if (!object || object.metadata.deletionTimestamp !== undefined) return noRequeue()
    const status = eventTypeStatusOf(object, catalogue.get(typeNameOf(object)) ?? object, clock.now())
    const patch = statusPatch(object.status, status)
    if (patch) await api.patch(eventTypes, { name }, { status: patch }, { subresource: 'status' })
    return noRequeue()
  }
}

/** @param counting the object that counts for the type @param now milliseconds since 1970 */
export function eventTypeStatusOf(object: EventType, counting: EventType, now: number): EventTypeStatus {
  const generation = object.metadata.generation ?? 0
  const type = typeNameOf(object)
  const older = counting.metadata.name === object.metadata.name ? undefined : counting.metadata.name
  return {
    type,
    observedGeneration: generation,
    conditions: mergeConditions(object.status?.conditions, eventTypeFindings(type, older), {
      now,
      generation,
    }),
  }
}

/** @param older the EventType that is used for the type instead */
export function eventTypeFindings(type: string, older: string | undefined): ConditionUpdate[] {
  if (older === undefined) {
    const message = `This EventType defines the type ${type}.`
    return [{ type: 'Ready', status: 'True', reason: 'Accepted', message }]
  }
  const duplicate = {
    reason: 'DuplicateType',
    message: `The older EventType ${older} already defines the type ${type} and is used instead. Change spec.type in one of the EventTypes, or delete one of them.`,
  }
  return [{ type: 'Ready', status: 'False', ...duplicate }, ...whileTrue('Stalled', duplicate)]
}
