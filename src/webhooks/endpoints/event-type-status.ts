import { type EventType, type EventTypeStatus, eventTypes, typeNameOf } from '../../apis/event-type.ts'
import type { ResourceWriter } from '../../kube/client.ts'
import { noRequeue, type ReconcileResult, type Reconciler } from '../../kube/reconcile-loop.ts'
import {
  type Cause,
  type ConditionUpdate,
  mergeConditions,
  statusPatch,
  whileTrue,
} from '../../kube/status.ts'
import type { SchemaValidator } from '../../lib/json-schema.ts'
import { withPeriod } from '../../lib/text.ts'
import type { Clock } from '../../lib/time.ts'
import type { EventTypeStore } from './event-types.ts'

/**
 * Writes the status of event types: whether their schema can be used, which publishers would find out otherwise. Of two objects with one
 * type, the older one counts, and the newer one says so.
 */

export type EventTypeReconcilerOptions = {
  api: ResourceWriter
  catalogue: EventTypeStore
  validator: Pick<SchemaValidator, 'faultOf'>
  clock: Clock
}

export class EventTypeReconciler implements Reconciler {
  readonly #options: EventTypeReconcilerOptions

  constructor(options: EventTypeReconcilerOptions) {
    this.#options = options
  }

  /** @param name of the object */
  async reconcile(name: string): Promise<ReconcileResult> {
    const { api, catalogue, validator, clock } = this.#options
    const object = catalogue.object(name)
    if (!object || object.metadata.deletionTimestamp !== undefined) return noRequeue()
    const { schema } = object.spec
    const counting = catalogue.get(typeNameOf(object)) ?? object
    const schemaFault = schema && validator.faultOf(schema)
    const status = eventTypeStatusOf(object, counting, clock.now(), schemaFault)
    const patch = statusPatch(object.status, status)
    if (patch) await api.patch(eventTypes, { name }, { status: patch }, { subresource: 'status' })
    return noRequeue()
  }
}

/**
 * @param counting the object that counts for the type @param now milliseconds since 1970
 * @param schemaFault why the schema cannot be used
 */
export function eventTypeStatusOf(
  object: EventType,
  counting: EventType,
  now: number,
  schemaFault?: string,
): EventTypeStatus {
  const generation = object.metadata.generation ?? 0
  const type = typeNameOf(object)
  const older = counting.metadata.name === object.metadata.name ? undefined : counting.metadata.name
  return {
    type,
    observedGeneration: generation,
    conditions: mergeConditions(object.status?.conditions, eventTypeFindings(type, older, schemaFault), {
      now,
      generation,
    }),
  }
}

/** @param older the EventType that is used for the type instead @param schemaFault why the schema cannot be used */
export function eventTypeFindings(
  type: string,
  older: string | undefined,
  schemaFault?: string,
): ConditionUpdate[] {
  const problem = problemOf(type, older, schemaFault)
  if (problem) return [{ type: 'Ready', status: 'False', ...problem }, ...whileTrue('Stalled', problem)]
  const message = `This EventType defines the type ${type}.`
  return [{ type: 'Ready', status: 'True', reason: 'Accepted', message }]
}

function problemOf(type: string, older?: string, schemaFault?: string): Cause | undefined {
  if (older !== undefined) return duplicateType(type, older)
  return schemaFault === undefined ? undefined : schemaInvalid(type, schemaFault)
}

function duplicateType(type: string, older: string): Cause {
  const message = `The older EventType ${older} already defines the type ${type} and is used instead. Change spec.type in one of the EventTypes, or delete one of them.`
  return { reason: 'DuplicateType', message }
}

function schemaInvalid(type: string, fault: string): Cause {
  const message = `spec.schema cannot be used: ${withPeriod(fault)} Until you correct it, Davit rejects all events of type ${type}.`
  return { reason: 'SchemaInvalid', message }
}
