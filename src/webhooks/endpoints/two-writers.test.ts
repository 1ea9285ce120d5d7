/** Two replicas that write the status of one endpoint: a shard changes hands while one of them is stopped. */

import { AsyncResource } from 'node:async_hooks'
import { describe, expect, it } from 'vitest'
import { FakeClock, settle } from '../../../test/support/fake-clock.ts'
import { MemoryStore } from '../../../test/support/memory-store.ts'
import { API_VERSION } from '../../apis/meta.ts'
import { webhookEndpoint, webhookEndpoints } from '../../apis/webhook-endpoint.ts'
import { shardOf } from '../../ha/assignment.ts'
import { OwnershipEpochs } from '../../ha/ownership.ts'
import { Organizations } from '../../kube/organizations.ts'
import { mergeConditions } from '../../kube/status.ts'
import type { Mail } from '../../lib/mail.ts'
import { EndpointDirectory, EndpointStatusWriter } from './directory.ts'
import { EndpointHealth } from './health.ts'
import { DisabledNotifier } from './notifier.ts'

const REF = { namespace: 'acme', name: 'one' }
const HOUR = 3_600_000
const nothing = () => undefined
const quiet = { info: nothing, warn: nothing, error: nothing }

async function world(status: object = {}) {
  const clock = new FakeClock()
  const store = new MemoryStore(() => clock.now())
  await store.create(webhookEndpoints, {
    apiVersion: API_VERSION,
    kind: 'WebhookEndpoint',
    metadata: REF,
    spec: { url: 'https://receiver.example', eventTypes: ['*'] },
  })
  await store.patch(webhookEndpoints, REF, { status }, { subresource: 'status' })
  const read = async () => webhookEndpoint.parse(await store.get(webhookEndpoints, REF))
  const mails: Mail[] = []
  const replica = async () => {
    const directory = new EndpointDirectory()
    directory.apply(await read())
    const statuses = new EndpointStatusWriter(store, directory, quiet)
    const { uid } = (await read()).metadata
    const state = { owns: true, refuses: false }
    const organizations = new Organizations()
    organizations.apply({ name: 'acme', uid: 'o', ownerEmails: ['ann@example.com'] })
    const notice = new DisabledNotifier({
      mailer: {
        send: async (mail) => {
          mails.push(mail)
          const later = { reason: 'not now', isPermanent: false, scope: 'server' } as const
          return state.refuses
            ? { accepted: [], refused: mail.to.map((address) => ({ address, ...later })) }
            : { accepted: mail.to, refused: [] }
        },
      },
      organizations,
      directory,
      statuses,
      shards: { owns: () => state.owns },
      heldMs: 0,
      clock,
      log: quiet,
      metrics: { mailed: nothing },
    })
    const look = () => {
      const view = directory.get(REF.namespace, REF.name)
      if (view?.endpoint.status) notice.notifyIfDisabled(view.endpoint.metadata, view.endpoint.status)
    }
    return {
      directory,
      statuses,
      state,
      notice,
      look,
      of: { ...REF, uid },
      streaks: new EndpointHealth(statuses, clock),
    }
  }
  return { clock, store, read, replica, mails }
}

describe('an exhausted delivery', () => {
  it('whose own end cannot be stored keeps nothing else from being written to its endpoint, but the count of the next', async () => {
    const { replica, read } = await world()
    const { of, streaks, statuses } = await replica()
    const stored = Promise.withResolvers<void>()
    const first = streaks.exhausted(of, 'msg_1', () => stored.promise)
    const next = streaks.exhausted(of, 'msg_2', async () => undefined)
    await settle()
    await statuses.exclusively(of, async (view) => {
      if (view) await statuses.write(view, () => ({ observedGeneration: 7 }))
    })
    expect((await read()).status).toMatchObject({ consecutiveFailures: 1, observedGeneration: 7 })
    stored.resolve()
    await Promise.all([first, next])
    expect((await read()).status).toMatchObject({ consecutiveFailures: 2, lastCounted: 'msg_2' })
  })

  it('that is still being ended when its shard is given up does not hold up the next one when the shard is back', async () => {
    const { clock, replica, read } = await world()
    const { of, statuses } = await replica()
    const epochs = new OwnershipEpochs()
    const shard = shardOf(of.uid)
    epochs.begin([shard])
    const streaks = new EndpointHealth(statuses, clock, { epochs: epochs })
    const refused = new Error('refused')
    const again = async (id: string) =>
      await streaks
        .exhausted(of, id, async () => await Promise.reject(refused))
        .catch((error: unknown) => error)
    const late = epochs.runWithin(shard, () => AsyncResource.bind(again))
    expect(await epochs.runWithin(shard, () => again('msg_1'))).toBe(refused)
    streaks.forget(shard)
    epochs.end([shard])
    expect(await late('msg_1')).toMatchObject({
      message: "this replica no longer owns the endpoint's shard",
    })
    epochs.begin([shard])
    await epochs.runWithin(shard, () => streaks.exhausted(of, 'msg_2', async () => undefined))
    expect((await read()).status).toMatchObject({ lastCounted: 'msg_2' })
  })

  it('that the other one has counted meanwhile is not counted again', async () => {
    const { replica, read } = await world()
    const [late, other] = [await replica(), await replica()]
    for (const id of ['msg_1', 'msg_2']) await other.streaks.exhausted(other.of, id, async () => undefined)
    await late.streaks.exhausted(late.of, 'msg_2', async () => undefined)
    expect((await read()).status).toMatchObject({ consecutiveFailures: 2, lastCounted: 'msg_2' })
  })

  it('is counted on top of what the other one has counted, and a streak that it ended stays ended', async () => {
    const { replica, read } = await world()
    const [late, other] = [await replica(), await replica()]
    for (const id of ['msg_1', 'msg_2']) await other.streaks.exhausted(other.of, id, async () => undefined)
    await late.streaks.exhausted(late.of, 'msg_3', async () => undefined)
    expect((await read()).status).toMatchObject({ consecutiveFailures: 3, lastCounted: 'msg_3' })
    const view = other.directory.find(other.of)
    await other.streaks.succeeded(other.of, view)
    expect((await read()).status?.consecutiveFailures).toBe(0)
  })
})

const DISABLED = {
  state: 'disabled',
  disabledReason: 'ConsecutiveFailures',
  disabledAt: '2026-01-31T12:00:00.000Z',
  consecutiveFailures: 5,
}

function told(conditions: readonly { type: string; reason: string }[] | undefined) {
  return conditions?.filter(({ type }) => type === 'OwnersNotified').map(({ reason }) => reason)
}

describe('owners', () => {
  it('are told by whoever has the shard: one who gave it up sends nothing more', async () => {
    const { clock, replica, mails, read } = await world(DISABLED)
    const [before, after] = [await replica(), await replica()]
    before.state.refuses = true
    before.look()
    await settle()
    expect(mails).toHaveLength(1)
    before.state.owns = false
    before.state.refuses = false
    await after.statuses.read(REF.namespace, REF.name)
    after.look()
    await settle()
    expect(mails).toHaveLength(2)
    await clock.elapse(24 * HOUR)
    expect(mails).toHaveLength(2)
    expect(told((await read()).status?.conditions)).toEqual(['Mailed'])
  })

  it('are told no second time by one whose shard came back', async () => {
    const { clock, replica, mails } = await world(DISABLED)
    const [before, after] = [await replica(), await replica()]
    before.state.refuses = true
    before.look()
    await settle()
    await after.statuses.read(REF.namespace, REF.name)
    after.look()
    await settle()
    await before.statuses.read(REF.namespace, REF.name)
    before.state.refuses = false
    await clock.elapse(24 * HOUR)
    expect(mails).toHaveLength(2)
  })

  it('how they were told is written beside the conditions that are there, not those that were', async () => {
    const { clock, replica, store, read } = await world(DISABLED)
    const one = await replica()
    const at = { now: clock.now(), generation: 1 }
    const ready = mergeConditions([], [{ type: 'Ready', status: 'False', reason: 'New', message: 'x' }], at)
    await store.patch(webhookEndpoints, REF, { status: { conditions: ready } }, { subresource: 'status' })
    one.look()
    await settle()
    const conditions = (await read()).status?.conditions ?? []
    expect(conditions.map(({ type, reason }) => `${type} ${reason}`)).toEqual([
      'Ready New',
      'OwnersNotified Mailed',
    ])
  })
})
