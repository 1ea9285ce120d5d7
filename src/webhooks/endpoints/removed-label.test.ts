/** A namespace that loses the label of an organization: what was accepted before is delivered, and the endpoints say why nothing else is. */

import { expect, test } from 'vitest'
import { EngineBed, ORGANIZATION } from '../../../test/support/engine-bed.ts'
import { type WebhookEndpoint, webhookEndpoint, webhookEndpoints } from '../../apis/webhook-endpoint.ts'
import { Organizations } from '../../kube/organizations.ts'
import { EndpointReconciler, type ReconcileEndpointOptions } from './controller.ts'
import { EndpointStatusWriter } from './directory.ts'
import { conditionOf } from './plan.ts'

const HOUR = 3_600_000
const nothing = () => undefined
const quiet = { info: nothing, warn: nothing, error: nothing }

/** Reconciles the endpoint as the controller does after an organization was removed. @returns its status */
async function statusIn(bed: EngineBed, organizations: Organizations, { metadata }: WebhookEndpoint) {
  const options: Partial<ReconcileEndpointOptions> = {
    directory: bed.directory,
    statuses: new EndpointStatusWriter(bed.store, bed.directory, quiet),
    organizations,
    clock: bed.clock,
    recorder: { record: nothing },
    leftOut: nothing,
    rejectedObject: nothing,
    attempts: () => ({}),
    urlGuard: { check: () => ({ ok: true, warning: undefined }) } as never,
    catalogue: { unknown: () => [] } as never,
    signingKeys: { reconcile: async () => ({ problems: [], handled: {}, rolled: false }) } as never,
    notifier: { notifyIfDisabled: nothing } as never,
  }
  const reconciler = new EndpointReconciler(options as ReconcileEndpointOptions)
  const key = `${ORGANIZATION}/${metadata.name}`
  await reconciler.reconcile(key, new AbortController().signal)
  const raw = await bed.store.get(webhookEndpoints, { namespace: ORGANIZATION, name: metadata.name })
  return webhookEndpoint.parse(raw).status
}

type Case = { what: string; spec?: { ordered: boolean }; events: number; restarts?: boolean }

test.each<Case>([
  { what: 'a delivery that waits for a retry', events: 1 },
  { what: 'several of them', events: 3 },
  { what: 'those of an ordered endpoint, one after the other', spec: { ordered: true }, events: 3 },
  { what: 'those that another process takes over', events: 2, restarts: true },
  {
    what: 'those of an ordered endpoint that another process takes over',
    spec: { ordered: true },
    events: 2,
    restarts: true,
  },
])('$what: sent, and the endpoint stays enabled', async ({ spec, events, restarts = false }) => {
  let bed = new EngineBed()
  const organizations = new Organizations()
  organizations.apply({ name: ORGANIZATION, uid: 'o', ownerEmails: [] })
  const endpoint = await bed.endpoint('one', spec)
  bed.sender.answers.set('/one', 503)
  bed.start()
  const ids = await bed.accept(...Array.from({ length: events }, () => bed.event([endpoint])))
  await bed.elapse(1000)
  organizations.remove({ name: ORGANIZATION })
  const status = await statusIn(bed, organizations, endpoint)
  expect(status?.state).toBe('enabled')
  expect(status && conditionOf(status, 'Stalled')).toMatchObject({
    status: 'True',
    reason: 'NotAnOrganization',
  })
  if (restarts) bed = await bed.restarted()
  bed.sender.answers.set('/one', 200)
  await bed.elapse(HOUR)
  expect(new Set(bed.begun('one'))).toEqual(new Set(ids))
  const states = bed.objects.map(({ status }) => (status as { state?: string } | undefined)?.state)
  expect(states).toEqual(ids.map(() => 'succeeded'))
})
