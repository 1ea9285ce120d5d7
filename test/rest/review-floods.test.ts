/** What one client makes the API server review is no other client's concern: with the API server's own verdicts. */

import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { connectReviews, type Reviews } from '../../src/kube/reviews.ts'
import { createClock, createRandom } from '../../src/lib/time.ts'
import { applyRoles, makeAccount, makeToken } from '../support/api-keys.ts'
import { testNamespace } from '../support/control-plane.ts'
import { SkewedClock } from '../support/fake-clock.ts'
import { ask, askAlone, openServerBed, type ServerBed } from '../support/server-bed.ts'

/** More than may wait for a review. */
const AT_ONCE = 300
const ROUNDS = 5
/** Of a server that has just started. */
const CLIENTS = 20
/** Between the requests of a client of a flood, which runs in the process of the server. */
const PAUSE_MS = 20
/** Beyond it a verdict is asked for again. */
const VERDICT_MS = 5_001

let reviews: Reviews
let bed: ServerBed
let organization: string
let owner: string
let busy: string
const clock = new SkewedClock()

beforeAll(async () => {
  await applyRoles()
  organization = await testNamespace('floods')
  const other = await testNamespace('floods-other')
  await makeAccount(organization, 'owner', 'davit-owner')
  await makeAccount(other, 'busy', 'davit-owner')
  owner = await makeToken(organization, 'owner')
  busy = await makeToken(other, 'busy')
  reviews = await connectReviews({
    kubeconfigPath: inject('kubeconfig'),
    clock: createClock(),
    random: createRandom(),
  })
  bed = await openServerBed({ ...reviews, clock, organizations: [organization, other] })
})
afterAll(async () => {
  await bed?.close()
  await reviews?.close()
})

const statusOf = async (of: string, key: string, at = bed) =>
  (await ask(at, `/organizations/${of}/webhooks`, { key })).status

/** Requests that go on until they are stopped. */
function flooding(request: (number: number) => Promise<number>) {
  const answers: number[] = []
  let number = 0
  let stopped = false
  const workers = Array.from({ length: AT_ONCE }, async () => {
    while (!stopped) {
      answers.push(await request(number++))
      await sleep(PAUSE_MS)
    }
  })
  const stop = async () => {
    stopped = true
    await Promise.all(workers)
  }
  return { answers, stop }
}

/**
 * What the owner is answered whenever its verdicts have run out, and which answers there are to a flood of requests that
 * goes on meanwhile.
 */
async function answersDuring(request: (number: number) => Promise<number>) {
  const flood = flooding(request)
  const owners: number[] = []
  try {
    for (let round = 1; round <= ROUNDS; round += 1) {
      await expect.poll(() => flood.answers.length, { timeout: 30_000 }).toBeGreaterThan(AT_ONCE * round)
      clock.jump(VERDICT_MS)
      owners.push(await statusOf(organization, owner))
    }
  } finally {
    await flood.stop()
  }
  return { owners, flood: [...new Set(flood.answers)] }
}

/** The part of a key with something else in it. */
function changed(part: string, change: object): string {
  const of = JSON.parse(Buffer.from(part, 'base64url').toString()) as object
  return Buffer.from(JSON.stringify({ ...of, ...change })).toString('base64url')
}

/** The key with another name: its signature is none for that. */
function forged(key: string, name: string): string {
  const [head, claims = '', signature] = key.split('.')
  return `${head}.${changed(claims, { jti: name })}.${signature}`
}

/** A key that is signed with a key that only the API server could know. */
function unknown(key: string, name: string): string {
  const [head = '', ...rest] = key.split('.')
  return [changed(head, { kid: name }), ...rest].join('.')
}

const ALL_WELL = Array.from({ length: ROUNDS }, () => 200)

test('a flood of keys that are none keeps nobody out who was let in before', async () => {
  expect(await statusOf(organization, owner)).toBe(200)
  const forging = (number: number) => statusOf(organization, forged(owner, `forged-${number}`))
  const { owners, flood } = await answersDuring(forging)
  expect(owners).toEqual(ALL_WELL)
  // Those that are more than what is reviewed for strangers are put off; of a slow API server it may be all.
  expect([401, 503]).toEqual(expect.arrayContaining(flood))
})

test.each([
  { what: 'forged', keyOf: forged },
  { what: 'of unknown issuers', keyOf: unknown },
])(
  'a server that has just started lets all its clients in while keys that are $what flood it',
  async ({ keyOf }) => {
    const keys = await Promise.all(Array.from({ length: CLIENTS }, () => makeToken(organization, 'owner')))
    const started = await openServerBed({ ...reviews, clock, organizations: [organization] })
    const flood = flooding((number) => statusOf(organization, keyOf(owner, `${number}`), started))
    try {
      await expect.poll(() => flood.answers.length, { timeout: 30_000 }).toBeGreaterThan(AT_ONCE)
      const statuses = await Promise.all(
        keys.map((key) => askAlone(started, `/organizations/${organization}/webhooks`, key)),
      )
      expect(statuses).toEqual(keys.map(() => 200))
    } finally {
      await flood.stop()
      await started.close()
    }
    expect([401, 503]).toEqual(expect.arrayContaining([...new Set(flood.answers)]))
  },
)

test('whoever asks for organizations that are none keeps nobody waiting but itself', async () => {
  expect(await statusOf(organization, owner)).toBe(200)
  const searching = (number: number) => statusOf(`nowhere-${number}`, busy)
  const { owners, flood } = await answersDuring(searching)
  expect(owners).toEqual(ALL_WELL)
  expect([404, 503]).toEqual(expect.arrayContaining(flood))
})
