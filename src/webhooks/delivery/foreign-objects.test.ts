/** WebhookDeliveries that somebody makes by hand, who says in them to be somebody else. */

import { expect, it } from 'vitest'
import { EngineBed, ORGANIZATION } from '../../../test/support/engine-bed.ts'
import { deliveryObjectName, nameOfMessage } from '../../apis/ids.ts'
import { API_VERSION, SHARD_LABEL } from '../../apis/meta.ts'
import { webhookDeliveries, webhookDelivery, webhookDeliveryKind } from '../../apis/webhook-delivery.ts'
import { shardOf } from '../../ha/assignment.ts'

const OTHER = 'other'
const OTHERS_UID = 'ffffffff-0000-4000-8000-000000000001'

/** A delivery that was attempted once, and waits; and what somebody makes of it, in another organization unless said otherwise. */
async function forged(
  spec: { endpoint?: string; endpointUid?: string },
  { namespace = OTHER, name }: { namespace?: string; name?: string } = {},
) {
  const bed = new EngineBed()
  const one = await bed.endpoint('one')
  bed.sender.answers.set('/one', 500)
  bed.start()
  await bed.accept(bed.event([one]))
  await bed.elapse(5000)
  const [genuine] = bed.objects.map((raw) => webhookDelivery.parse(raw))
  if (!genuine) throw new Error('it has no object')
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
