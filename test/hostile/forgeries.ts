/** Objects made by an attacker who knows everything that another organization has stored. */

import { deliveryObjectName, nameOfMessage } from '../../src/apis/ids.ts'
import { type KindDefinition, SHARD_LABEL } from '../../src/apis/meta.ts'
import { webhookDelivery } from '../../src/apis/webhook-delivery.ts'
import { webhookEndpointKind } from '../../src/apis/webhook-endpoint.ts'
import { shardOf } from '../../src/ha/assignment.ts'
import type { RawObject } from '../../src/kube/client.ts'
import type { SeededRandom } from '../chaos/seeded-random.ts'
import type { GoodObject } from './good-objects.ts'

export type Drawn = {
  kind: KindDefinition
  metadata: { name?: string; labels?: unknown; annotations?: unknown }
  spec: unknown
  status: unknown
  /** Probability that a text is replaced by another name. */
  chance: number
}

export type DrawFrom = {
  random: SeededRandom
  theirs: readonly RawObject[]
  /** Our endpoint. */
  our: RawObject
  /** Never copied. */
  secret: string
}

/** For each text in an object of ours, and in a copy of one of theirs. */
const CHANCES = { own: 0.4, copy: 0.1 }

/** Draws a valid object, a copy of one of theirs, or one of theirs changed to be about our endpoint. */
export function draw(good: GoodObject, { random, theirs, our, secret }: DrawFrom): Drawn {
  const { kind, spec, status, annotations } = good
  const copied = theirs.filter((one) => one.kind === kind.kind)
  const how = random.fraction()
  if (copied.length === 0 || how < 0.4)
    return { kind, metadata: { annotations }, spec, status, chance: CHANCES.own }
  const one = random.pick(copied)
  if (how < 0.7) return { ...copyOf(one, secret), kind, chance: CHANCES.copy }
  return { ...copyOf(asIfOurs(one, theirs, our), secret), kind, chance: 0 }
}

/** The content of their events is unknown to an attacker. */
function copyOf(one: RawObject, secret: string) {
  const {
    metadata,
    spec,
    status = {},
  } = JSON.parse(JSON.stringify(one).replaceAll(secret, 'copied')) as RawObject
  const { name, labels, annotations } = metadata
  return { metadata: { name, labels, annotations }, spec, status }
}

function asIfOurs(one: RawObject, theirObjects: readonly RawObject[], our: RawObject): RawObject {
  let text = JSON.stringify(one)
  for (const { kind, metadata } of theirObjects)
    if (kind === webhookEndpointKind.kind)
      text = text
        .replaceAll(String(metadata.uid), String(our.metadata.uid))
        .replaceAll(`"${metadata.name}"`, `"${our.metadata.name}"`)
  const object = JSON.parse(text) as RawObject
  const delivery = webhookDelivery.safeParse(object).data
  if (!delivery) return object
  const { deliveryId, endpointUid } = delivery.spec
  const name = deliveryObjectName(nameOfMessage(deliveryId) ?? '', endpointUid)
  const labels = { [SHARD_LABEL]: String(shardOf(endpointUid)) }
  return { ...object, metadata: { ...object.metadata, name, labels } }
}
