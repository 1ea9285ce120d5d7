/** WebhookDeliveries that somebody makes by hand, who says in them to be somebody else. */

import { describe, expect, it } from 'vitest'
import { EngineBed, ORGANIZATION } from '../../../test/support/engine-bed.ts'
import { formatPosition } from '../../apis/delivery-segment.ts'
import { deliveryObjectName, nameOfMessage } from '../../apis/ids.ts'
import { API_VERSION, SHARD_LABEL } from '../../apis/meta.ts'
import { webhookDeliveries, webhookDelivery, webhookDeliveryKind } from '../../apis/webhook-delivery.ts'
import { shardOf } from '../../ha/assignment.ts'

const OTHER = 'other'
const OTHERS_UID = 'ffffffff-0000-4000-8000-000000000001'
const THIRD_UID = 'ffffffff-0000-4000-8000-000000000002'
/** No endpoint here has it. */
const SPARE = 0

/** A delivery that was attempted once, and waits. */
async function retrying() {
  const bed = new EngineBed()
  const one = await bed.endpoint('one')
  bed.sender.answers.set('/one', 500)
  bed.start()
  await bed.accept(bed.event([one]))
  await bed.elapse(5000)
  const [genuine] = bed.objects.map((raw) => webhookDelivery.parse(raw))
  if (!genuine) throw new Error('it has no object')
  return { bed, genuine }
}

/** A delivery that waits for a retry, and a forged object with its ID, by default in another organization. */
async function forged(
  spec: { endpoint?: string; endpointUid?: string },
  { namespace = OTHER, name }: { namespace?: string; name?: string } = {},
) {
  const { bed, genuine } = await retrying()
  const all = { ...genuine.spec, endpoint: 'theirs', endpointUid: OTHERS_UID, ...spec }
  const event = nameOfMessage(all.deliveryId) ?? ''
  await bed.store.create(webhookDeliveries, {
    apiVersion: API_VERSION,
    kind: webhookDeliveryKind.kind,
    metadata: {
      namespace,
      name: name ?? deliveryObjectName(event, all.endpointUid),
      labels: { [SHARD_LABEL]: String(shardOf(all.endpointUid)) },
    },
    spec: all,
  })
  const next = await bed.restarted((after) => void after.sender.answers.set('/one', 200))
  return { next, genuine }
}

const FORGED = [
  ['another endpoint at its place', {}],
  ['its own endpoint', { endpoint: 'one', endpointUid: 'of one' }],
  ['another name of its own endpoint', { endpoint: 'two', endpointUid: 'of one' }],
] as const

it.each(FORGED)('%s: the one that is meant goes on as it was', async (_, { ...spec }) => {
  const uid = (await new EngineBed().endpoint('one')).metadata.uid
  const { next, genuine } = await forged('endpointUid' in spec ? { ...spec, endpointUid: uid } : spec)
  const { nextAttemptAt = '' } = genuine.status ?? {}
  await next.elapse(Date.parse(nextAttemptAt) - next.clock.now() - 1)
  expect(next.begun('one')).toEqual([])
  await next.elapse(10_000)
  expect(next.begun('one')).toHaveLength(1)
  const after = next.objects.filter(({ metadata }) => metadata.namespace === ORGANIZATION)
  expect(after.map(({ status }) => status)).toMatchObject([{ state: 'succeeded', attemptCount: 2 }])
})

it('another name in its own organization: the one that is meant goes on as it was', async () => {
  const uid = (await new EngineBed().endpoint('one')).metadata.uid
  const { next, genuine } = await forged(
    { endpoint: 'one', endpointUid: uid },
    { namespace: ORGANIZATION, name: 'another-name' },
  )
  await next.elapse(Date.parse(genuine.status?.nextAttemptAt ?? '') - next.clock.now() - 1)
  expect(next.begun('one')).toEqual([])
  await next.elapse(10_000)
  expect(next.begun('one')).toHaveLength(1)
})

/** The end that an object states is no end of the delivery that has its position in the log. */
describe('one that has ended just now', () => {
  /** Another replica, which learns about ends only from the log. */
  async function follower(bed: EngineBed): Promise<EngineBed> {
    const third = new EngineBed(bed)
    third.showOutcomes()
    third.owns = (shard) => shard === SPARE
    const started = third.takeOver.start(new Set([SPARE]), new AbortController().signal)
    await bed.elapse(1000)
    await started
    return third
  }

  /** @param given what differs from the delivery of that position */
  async function endedAt(bed: EngineBed, position: string, given: { id?: string; uid: string }) {
    const { id = `msg_${'7'.repeat(26)}`, uid } = given
    const event = nameOfMessage(id) ?? ''
    const metadata = {
      namespace: OTHER,
      name: deliveryObjectName(event, uid),
      labels: { [SHARD_LABEL]: String(shardOf(uid)) },
    }
    const writtenAt = new Date(bed.clock.now()).toISOString()
    const spec = { endpoint: 'theirs', endpointUid: uid, deliveryId: id, eventType: 'test.event' }
    await bed.store.create(webhookDeliveries, {
      ...{ apiVersion: API_VERSION, kind: webhookDeliveryKind.kind, metadata },
      spec: { ...spec, position, payload: '{}', writtenAt },
    })
    const completedAt = new Date(bed.clock.now()).toISOString()
    const status = { state: 'succeeded', attemptCount: 1, completedAt }
    await bed.store.patch(webhookDeliveries, metadata, { status }, { subresource: 'status' })
  }

  async function ends(bed: EngineBed): Promise<string[]> {
    const all = (await bed.records()).filter(({ kind }) => kind === 'ended')
    return all.map(({ position }) => formatPosition(position))
  }

  // Before and behind it in a list of objects.
  it.each([OTHERS_UID, THIRD_UID])('where another one is retried (%s)', async (uid) => {
    const { bed, genuine } = await retrying()
    const third = await follower(bed)
    await endedAt(bed, genuine.spec.position, { id: genuine.spec.deliveryId, uid })
    const next = await bed.restarted((after) => void after.sender.answers.set('/one', 200))
    await next.elapse(1000)
    third.showOutcomes()
    expect([await ends(next), third.engine.counters.total]).toEqual([[], 1])
    await next.elapse(60_000)
    third.showOutcomes()
    expect([await ends(next), third.engine.counters.total]).toEqual([[genuine.spec.position], 0])
  })

  it('where an entry waits in the log', async () => {
    const bed = new EngineBed()
    const one = await bed.endpoint('one')
    const segment = await bed.append(bed.event([one]))
    await endedAt(bed, `${segment.version}/0`, { uid: OTHERS_UID })
    const next = await bed.restarted((after) => {
      after.owns = (shard) => shard !== shardOf(one.metadata.uid)
    })
    await next.elapse(1000)
    expect([await ends(next), next.engine.counters.total]).toEqual([[], 1])
  })

  it('where nothing can be, since its object is older', async () => {
    const bed = new EngineBed()
    await endedAt(bed, '99999999/0', { uid: OTHERS_UID })
    const next = await bed.restarted()
    await next.elapse(1000)
    expect(await ends(next)).toEqual([])
  })

  it('where nothing is pending is recorded: its writer may have died before', async () => {
    const bed = new EngineBed()
    await endedAt(bed, '1/0', { uid: OTHERS_UID })
    const next = await bed.restarted()
    await next.elapse(1000)
    expect(await ends(next)).toEqual(['1/0'])
  })
})
