/** Conditions and times of a status, as kstatus, Flux, Argo CD and `kubectl wait` read them (settled, "Storage", "REST shapes"). */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { z } from 'zod'
import { API_VERSION, type Condition, type ObjectMeta } from '../../src/apis/meta.ts'
import { type WebhookEndpoint, webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { kinds } from '../../tools/docgen/crd.ts'
import { ABSENT_UNLESS_TRUE, hasCondition } from '../support/conditions.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { allEnded, disableByFailures, exhaust, failingEndpoint, SHORT_WAITS } from '../support/exhaust.ts'
import { makeEventType, ownEventType } from '../support/own-event-type.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'

type WithStatus = {
  metadata: ObjectMeta
  status?: { observedGeneration: number; conditions?: Condition[] | undefined } | undefined
}

let davit: TestDavit
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('conditions', { env: SHORT_WAITS })
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

/** What kstatus computes: the generation first, then Reconciling, Stalled and Ready, in this order. */
function kstatus({ metadata, status }: WithStatus): 'InProgress' | 'Failed' | 'Current' {
  if (status?.observedGeneration !== metadata.generation) return 'InProgress'
  const is = (type: string) => status?.conditions?.find((condition) => condition.type === type)?.status
  if (is('Reconciling') === 'True') return 'InProgress'
  if (is('Stalled') === 'True') return 'Failed'
  return is('Ready') === 'True' ? 'Current' : 'InProgress'
}

/** `Ready: 'True Accepted'` and so on, once Davit has seen the newest spec. */
async function summary(name: string) {
  const endpoint = await inForce(name)
  const conditions = endpoint.status?.conditions ?? []
  return {
    kstatus: kstatus(endpoint),
    ...ABSENT_UNLESS_TRUE,
    ...Object.fromEntries(conditions.map(({ type, status, reason }) => [type, `${status} ${reason}`])),
  }
}

function inForce(name: string): Promise<WebhookEndpoint> {
  return davit.endpointWhen(
    name,
    ({ status, metadata }) =>
      status?.conditions !== undefined && status.observedGeneration === metadata.generation,
  )
}

/** An endpoint that gets no events of other tests. */
async function endpoint(name: string, spec: Record<string, unknown>): Promise<void> {
  await davit.endpoint(name, { eventTypes: [await ownEventType(davit)], ...spec })
}

function make(name: string, spec: Record<string, unknown>): Promise<unknown> {
  const metadata = { name, namespace: davit.organization }
  const object = { apiVersion: API_VERSION, kind: 'WebhookEndpoint', metadata, spec }
  return davit.api.create(webhookEndpoints, object)
}

describe('the conditions of an endpoint that', () => {
  test('is healthy', async () => {
    await endpoint('healthy', { url: `${receiver.url}/healthy` })
    expect(await summary('healthy')).toEqual({
      kstatus: 'Current',
      Ready: 'True Accepted',
      Reconciling: 'absent',
      Stalled: 'absent',
      Delivering: 'True Healthy',
    })
  })

  test('names a type that does not exist, until it exists', async () => {
    const missing = `${await ownEventType(davit)}.missing`
    await davit.endpoint('unknown-type', { url: `${receiver.url}/x`, eventTypes: [missing] })
    expect(await summary('unknown-type')).toEqual({
      kstatus: 'Failed',
      Ready: 'False UnknownEventTypes',
      Reconciling: 'absent',
      Stalled: 'True UnknownEventTypes',
      Delivering: 'True Healthy',
    })
    await makeEventType(davit, missing)
    await davit.endpointWhen('unknown-type', (endpoint) => kstatus(endpoint) === 'Current')
  })

  test.for(['http://10.1.2.3/hooks', 'https://169.254.169.254/latest', 'https://[fd00::1]/'])(
    'has a url that is refused: %s',
    async (url) => {
      const name = `refused-${url.replaceAll(/[^a-z0-9]+/g, '-').replace(/-$/, '')}`
      await endpoint(name, { url })
      expect(await summary(name)).toEqual({
        kstatus: 'Failed',
        Ready: 'False UrlNotAllowed',
        Reconciling: 'absent',
        Stalled: 'True UrlNotAllowed',
        Delivering: 'True Healthy',
      })
      await davit.patchSpec(name, { url: `${receiver.url}/mended` })
      expect(await summary(name)).toMatchObject({ kstatus: 'Current', Stalled: 'absent' })
    },
  )

  test('its owner has disabled', async () => {
    await endpoint('paused', { url: `${receiver.url}/paused`, state: 'disabled' })
    expect(await summary('paused')).toEqual({
      kstatus: 'Current',
      Ready: 'True Paused',
      Reconciling: 'absent',
      Stalled: 'absent',
      Delivering: 'False Disabled',
    })
  })

  test('fails, until a delivery succeeds', async () => {
    const failing = await failingEndpoint(davit, receiver, 'failing')
    await exhaust(davit, failing, 1)
    await davit.endpointWhen('failing', (endpoint) =>
      hasCondition(endpoint, 'Delivering', { status: 'False' }),
    )
    expect(await summary('failing')).toEqual({
      kstatus: 'Current',
      Ready: 'True Accepted',
      Reconciling: 'absent',
      Stalled: 'absent',
      Delivering: 'False Failing',
    })
    receiver.answer(failing.path, {})
    await davit.publish(failing.type, {})
    await davit.endpointWhen('failing', (endpoint) =>
      hasCondition(endpoint, 'Delivering', { status: 'True' }),
    )
    expect(await summary('failing')).toMatchObject({ Delivering: 'True Healthy' })
  })

  test('was disabled automatically, until it is enabled', async () => {
    const failing = await failingEndpoint(davit, receiver, 'auto-disabled')
    await disableByFailures(davit, failing)
    await davit.endpointWhen(
      'auto-disabled',
      ({ status }) => status?.conditions?.some(({ type }) => type === 'OwnersNotified') === true,
    )
    expect(await summary('auto-disabled')).toEqual({
      kstatus: 'Failed',
      Ready: 'False ConsecutiveFailures',
      Reconciling: 'absent',
      Stalled: 'True ConsecutiveFailures',
      Delivering: 'False Disabled',
      OwnersNotified: 'False NoMailServer',
    })
    await davit.annotate('auto-disabled', { 'davit.dev/enable-requested-at': davit.time() })
    await davit.endpointWhen('auto-disabled', ({ status }) => status?.state === 'enabled')
    expect(await summary('auto-disabled')).toEqual({
      kstatus: 'Current',
      Ready: 'True Accepted',
      Reconciling: 'absent',
      Stalled: 'absent',
      Delivering: 'True Healthy',
    })
  })
})

describe('the generation that a status speaks of', () => {
  test('is in the status of every kind but deliveries, whose specs never change', () => {
    const withStatus = kinds.filter(({ status }) => status !== undefined)
    const withGeneration = withStatus.filter(
      ({ status }) => 'observedGeneration' in (status as z.ZodObject).shape,
    )
    expect(withStatus.map(({ kind }) => kind)).toContain('WebhookDelivery')
    expect(withGeneration).toEqual(withStatus.filter(({ kind }) => kind !== 'WebhookDelivery'))
  })

  test('is behind while no controller runs, so that nobody takes a new spec for one that is in force', async () => {
    await endpoint('behind', { url: `${receiver.url}/behind` })
    const type = await ownEventType(davit)
    await davit.controller.stop()
    await davit.patchSpec('behind', { description: 'changed' })
    await make('not-seen', { url: `${receiver.url}/not-seen`, eventTypes: [type] })
    const event = await davit.publishOnly(type, {})
    const changed = await davit.endpointWhen('behind', () => true)
    expect(changed.status?.observedGeneration).toBe((changed.metadata.generation ?? 0) - 1)
    const unseen = [
      await davit.endpointWhen('not-seen', () => true),
      await davit.eventWhen(event, () => true),
    ]
    expect(unseen.map(({ status }) => status?.observedGeneration)).toEqual([-1, -1])
    expect([changed, ...unseen].map(kstatus)).toEqual(['InProgress', 'InProgress', 'InProgress'])
    await davit.startController()
    await davit.endpointWhen('behind', (endpoint) => kstatus(endpoint) === 'Current')
    await davit.endpointWhen('not-seen', (endpoint) => kstatus(endpoint) === 'Current')
    await davit.eventWhen(event, (seen) => kstatus(seen) === 'Current')
  })
})

test('the conditions of an event: accepted, with nobody to go to, refused', async () => {
  const type = await ownEventType(davit)
  receiver.answer('/event', { status: 500 }, {})
  await davit.endpoint('event', { url: `${receiver.url}/event`, eventTypes: [type] })
  const accepted = await davit.publish(type, {})
  const nobody = await davit.publish(await ownEventType(davit), {})
  const refused = await davit.publish(`${type}.unknown`, {})
  expect([accepted, nobody, refused].map(kstatus)).toEqual(['Current', 'Current', 'Failed'])
  for (const { status, metadata } of [accepted, nobody, refused])
    for (const condition of status?.conditions ?? [])
      expect(condition.observedGeneration).toBe(metadata.generation)
  await allEnded(davit, 'event', 1)
  const over = await davit.eventWhen(accepted.metadata.name, ({ status }) => status?.state === 'dispatched')
  expect(over.status?.conditions).toEqual(accepted.status?.conditions)
})
