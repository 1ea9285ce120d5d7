/** Rolling the signing key (interface §2.4, §4.2 rule 3, §5.5, §8; settled, "Events and deliveries"). */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { ApiError } from '../../src/kube/client.ts'
import type { KubernetesClient } from '../../src/kube/resources.ts'
import { fingerprintOf } from '../../src/webhooks/sender/signature.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { driveToAttempt, driveToEnd } from '../support/drive.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { passBy } from '../support/pass-by.ts'
import { type ReceivedRequest, type Receiver, startReceiver } from '../support/receiver.ts'
import { signersOf } from '../support/signers.ts'
import { until } from '../support/until.ts'

const ROLL = 'davit.dev/rotate-requested-at'
const DAY_MS = 86_400_000

let davit: TestDavit
let receiver: Receiver
/** While true, writes of endpoint statuses fail. */
let statusRefused = false

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('roll', { wrapApi: withRefusals })
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

function withRefusals(api: KubernetesClient): KubernetesClient {
  return {
    ...api,
    patch: async (type, ref, patch, options) => {
      if (statusRefused && type.plural === webhookEndpoints.plural)
        throw new ApiError('Unavailable', 'not now')
      return await api.patch(type, ref, patch, options)
    },
  }
}

async function roll(name: string, option = ''): Promise<string> {
  const value = davit.time() + option
  await davit.annotate(name, { [ROLL]: value })
  await davit.endpointWhen(name, ({ status }) => status?.lastHandled?.rotate === value)
  // Two rotations within one millisecond would have one value.
  davit.clock.jump(1)
  return value
}

/** What the endpoint gets next. */
async function nextRequest(name: string): Promise<ReceivedRequest> {
  const path = `/${name}`
  const before = receiver.received(path).length
  await davit.annotate(name, { 'davit.dev/ping-requested-at': davit.time() })
  const request = (await receiver.waitFor(before + 1, { path })).at(-1)
  if (!request) throw new Error('nothing came')
  return request
}

async function endpoint(name: string): Promise<string> {
  const { secret } = await davit.endpoint(name, { url: `${receiver.url}/${name}` })
  return secret
}

test('a signing key is whsec_ and 24 bytes in base64, one per endpoint, and status shows its fingerprint only', async () => {
  const one = await endpoint('one')
  const two = await endpoint('two')
  for (const secret of [one, two]) {
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{32}$/)
    expect(Buffer.from(secret.slice(6), 'base64')).toHaveLength(24)
  }
  expect(one).not.toBe(two)
  const { status } = await davit.endpointWhen('one', () => true)
  expect(status?.signingSecrets).toEqual([{ fingerprint: fingerprintOf(one), createdAt: expect.any(String) }])
})

test('after a roll both keys sign, the newest first, for 24 hours, and then the new one alone', async () => {
  const old = await endpoint('overlap')
  const before = davit.clock.now()
  await roll('overlap')
  const [fresh = ''] = davit.secrets('overlap')
  expect(davit.secrets('overlap')).toEqual([fresh, old])
  expect(fresh).not.toBe(old)
  const { status } = await davit.endpointWhen('overlap', () => true)
  expect(status?.signingSecrets?.map(({ fingerprint }) => fingerprint)).toEqual(
    [fresh, old].map(fingerprintOf),
  )
  expect(status?.signingSecrets?.[0]?.expiresAt).toBeUndefined()
  const ends = Date.parse(status?.signingSecrets?.[1]?.expiresAt ?? '')
  expect(ends - before).toBeGreaterThanOrEqual(DAY_MS)
  expect(ends - before).toBeLessThan(DAY_MS + 15_000)
  expect(signersOf(await nextRequest('overlap'), [fresh, old])).toEqual([0, 1])

  davit.clock.jump(ends - davit.clock.now() - 5000)
  expect(signersOf(await nextRequest('overlap'), [fresh, old])).toEqual([0, 1])
  davit.clock.jump(5000)
  expect(signersOf(await nextRequest('overlap'), [fresh, old])).toEqual([0])
  const after = await davit.endpointWhen('overlap', ({ status }) => status?.signingSecrets?.length === 1)
  expect(after.status?.signingSecrets).toMatchObject([{ fingerprint: fingerprintOf(fresh) }])
})

test('with expire-old the old key is invalid at once', async () => {
  const old = await endpoint('expire-old')
  await roll('expire-old', ';expire-old')
  const [fresh = '', ...others] = davit.secrets('expire-old')
  expect(others).toEqual([])
  expect(fresh).not.toBe(old)
  expect(signersOf(await nextRequest('expire-old'), [fresh, old])).toEqual([0])
  const { status } = await davit.endpointWhen('expire-old', () => true)
  expect(status?.signingSecrets).toMatchObject([{ fingerprint: fingerprintOf(fresh) }])
})

test('rolls inside an overlap: up to five keys sign, a sixth is refused, and expire-old ends all earlier ones', async () => {
  const keys = [await endpoint('often')]
  for (let n = 0; n < 4; n += 1) {
    await roll('often')
    keys.unshift(davit.secrets('often')[0] ?? '')
  }
  expect(new Set(keys).size).toBe(5)
  expect(signersOf(await nextRequest('often'), keys)).toEqual([0, 1, 2, 3, 4])
  await roll('often')
  await davit.eventSeen('often', 'TooManySigningSecrets')
  expect(davit.secrets('often')).toEqual(keys)
  expect(signersOf(await nextRequest('often'), keys)).toEqual([0, 1, 2, 3, 4])
  await roll('often', ';expire-old')
  const [last = ''] = davit.secrets('often')
  expect(signersOf(await nextRequest('often'), [last, ...keys])).toEqual([0])
})

test('a roll that was refused for too many keys works once the oldest has ended', async () => {
  await endpoint('patient')
  for (let n = 0; n < 4; n += 1) await roll('patient')
  const [newest = ''] = davit.secrets('patient')
  davit.clock.jump(DAY_MS)
  await roll('patient')
  const [fresh = ''] = davit.secrets('patient')
  expect(signersOf(await nextRequest('patient'), [fresh, newest])).toEqual([0, 1])
})

describe('a roll signs the very next attempt', () => {
  test('of a delivery that waits for its retry', async () => {
    const type = await ownEventType(davit)
    const path = '/retry'
    receiver.answer(path, { status: 500 }, { status: 500 }, {})
    const { secret: old } = await davit.endpoint('retry', { url: receiver.url + path, eventTypes: [type] })
    await davit.publish(type, {})
    await driveToAttempt(davit, 'retry', 1)
    await roll('retry')
    const [middle = ''] = davit.secrets('retry')
    await driveToAttempt(davit, 'retry', 2)
    await roll('retry', ';expire-old')
    const [newest = ''] = davit.secrets('retry')
    await driveToEnd(davit, 'retry')
    const keys = [newest, middle, old]
    expect(receiver.received(path).map((request) => signersOf(request, keys))).toEqual([[2], [1, 2], [0]])
  })

  test('of an endpoint that is disabled at the time of the roll', async () => {
    const old = await endpoint('paused')
    await davit.patchSpec('paused', { state: 'disabled' })
    await davit.endpointWhen('paused', ({ status }) => status?.state === 'disabled')
    await roll('paused')
    const [fresh = ''] = davit.secrets('paused')
    await davit.patchSpec('paused', { state: 'enabled' })
    await davit.endpointWhen('paused', ({ status }) => status?.state === 'enabled')
    expect(signersOf(await nextRequest('paused'), [fresh, old])).toEqual([0, 1])
  })
})

describe('a value makes one key', () => {
  test('not another one after a restart', async () => {
    await endpoint('restarted')
    const value = await roll('restarted')
    const keys = davit.secrets('restarted')
    await davit.restart()
    await davit.annotate('restarted', { unrelated: 'x' })
    await passBy(davit, receiver)
    expect(davit.secrets('restarted')).toEqual(keys)
    expect(keys).toHaveLength(2)
    expect((await davit.endpointWhen('restarted', () => true)).status?.lastHandled?.rotate).toBe(value)
  })

  test('not another one when the process ends between the key and its status', async () => {
    await endpoint('crashed')
    const value = davit.time()
    statusRefused = true
    try {
      await davit.annotate('crashed', { [ROLL]: value })
      await until(
        async () => (davit.secrets('crashed').length === 2 ? true : undefined),
        () => 'no key was made',
      )
      await davit.controller.stop()
    } finally {
      statusRefused = false
    }
    const [fresh = ''] = davit.secrets('crashed')
    await davit.startController()
    const { status } = await davit.endpointWhen(
      'crashed',
      ({ status }) => status?.lastHandled?.rotate === value,
    )
    expect(davit.secrets('crashed')).toHaveLength(2)
    expect(status?.signingSecrets?.[0]?.fingerprint).toBe(fingerprintOf(fresh))
  })

  test('none when it is older than the endpoint or no time', async () => {
    const secret = await endpoint('unmoved')
    for (const value of ['2020-01-01T00:00:00Z', 'now']) {
      await davit.annotate('unmoved', { [ROLL]: value })
      await davit.endpointWhen('unmoved', ({ status }) => status?.lastHandled?.rotate === value)
      expect(davit.secrets('unmoved')).toEqual([secret])
    }
    await davit.eventSeen('unmoved', 'InvalidRequest')
  })
})

test('no key is in a status, in an event or in the log of the process', async () => {
  const names = ['one', 'overlap', 'often', 'retry', 'crashed']
  const secrets = names.flatMap((name) => davit.secrets(name))
  expect(secrets.length).toBeGreaterThan(5)
  const objects = await davit.api.list(webhookEndpoints, { namespace: davit.organization })
  const seen = JSON.stringify([objects.items, davit.events]) + davit.logLines.join('\n')
  for (const secret of secrets) {
    expect(seen.includes(secret)).toBe(false)
    expect(seen.includes(secret.slice(6))).toBe(false)
    expect(seen.includes(Buffer.from(secret).toString('base64'))).toBe(false)
  }
})
