/** What changes while an attempt is still connecting: nothing of it is on the wire yet. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { driveToEnd } from '../support/drive.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { passBy } from '../support/pass-by.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { signersOf } from '../support/signers.ts'

let davit: TestDavit
let receiver: Receiver
/** Names are not resolved before it is. */
let gate = Promise.withResolvers<void>()
/** A name is asked for. */
let asked = Promise.withResolvers<void>()

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('slow-connect', {
    nameServer: { resolve4: resolveLate, resolve6: notFound },
  })
})

beforeEach(() => {
  gate = Promise.withResolvers()
  asked = Promise.withResolvers()
})

afterAll(async () => {
  gate.resolve()
  await davit?.stop()
  await receiver?.close()
})

async function resolveLate(): Promise<string[]> {
  asked.resolve()
  await gate.promise
  return ['127.0.0.1']
}

async function notFound(): Promise<string[]> {
  throw Object.assign(new Error('no such name'), { code: 'ENOTFOUND' })
}

/** An endpoint whose first attempt is connecting. @returns its signing secret */
async function connecting(name: string): Promise<string> {
  const type = await ownEventType(davit)
  const url = `http://${name}.example.com:${receiver.port}/${name}`
  const { secret } = await davit.endpoint(name, { url, eventTypes: [type] })
  await davit.publish(type, {})
  await asked.promise
  return secret
}

test('an endpoint that is disabled meanwhile gets nothing, and all of it once it is enabled', async () => {
  await connecting('disabled')
  await davit.patchSpec('disabled', { state: 'disabled' })
  await davit.endpointWhen('disabled', ({ status }) => status?.state === 'disabled')
  gate.resolve()
  await passBy(davit, receiver)
  expect(receiver.received('/disabled')).toEqual([])
  await davit.patchSpec('disabled', { state: 'enabled' })
  const [delivery] = await driveToEnd(davit, 'disabled')
  expect(delivery?.status).toMatchObject({ state: 'succeeded', attemptCount: 1 })
  expect(receiver.received('/disabled')).toHaveLength(1)
})

test('after a roll that ends the old key at once it is signed with the new key alone', async () => {
  const old = await connecting('rolled')
  const value = `${davit.time()};expire-old`
  await davit.annotate('rolled', { 'davit.dev/rotate-requested-at': value })
  await davit.endpointWhen('rolled', ({ status }) => status?.lastHandled?.rotate === value)
  gate.resolve()
  const [request] = await receiver.waitFor(1, { path: '/rolled' })
  const [fresh = ''] = davit.secrets('rolled')
  expect(request && signersOf(request, [fresh, old])).toEqual([0])
  const [delivery] = await driveToEnd(davit, 'rolled')
  expect(delivery?.status).toMatchObject({ state: 'succeeded', attemptCount: 1 })
  expect(receiver.received('/rolled')).toHaveLength(1)
})

test('an endpoint that is deleted meanwhile gets nothing', async () => {
  await connecting('deleted')
  await davit.api.delete(webhookEndpoints, { namespace: davit.organization, name: 'deleted' })
  await davit.deliveriesWhen('deleted', (deliveries) => deliveries.length === 0)
  gate.resolve()
  await passBy(davit, receiver)
  expect(receiver.received('/deleted')).toEqual([])
})

test('what goes to another URL meanwhile goes there alone', async () => {
  await connecting('moved')
  await davit.patchSpec('moved', { url: `${receiver.url}/moved-to` })
  await davit.endpointWhen(
    'moved',
    ({ metadata, status }) => status?.observedGeneration === metadata.generation,
  )
  gate.resolve()
  await receiver.waitFor(1, { path: '/moved-to' })
  await driveToEnd(davit, 'moved')
  expect(receiver.received('/moved')).toEqual([])
})
