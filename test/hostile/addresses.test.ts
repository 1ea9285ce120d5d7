/** No spelling, name or redirect leads a webhook to a forbidden address: every connection attempt is observed at the socket. */

import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { createClock } from '../../src/lib/time.ts'
import type { NameServer } from '../../src/net/resolver.ts'
import type { SendOutcome } from '../../src/webhooks/sender/send-failures.ts'
import { createWebhookSender } from '../../src/webhooks/sender/sender.ts'
import { SeededRandom } from '../chaos/seeded-random.ts'
import { type Dialled, watchDialling } from '../support/dialled.ts'
import { onRequest, type RawReceiver, startRawReceiver } from '../support/receiver-raw.ts'
import { tellFigures } from './figures.ts'
import { forbiddenIpv4, forbiddenIpv6, ipv4Hosts, ipv6Hosts, trickyUrls } from './forbidden-addresses.ts'
import { seedOfRun } from './seed.ts'

const SEED = seedOfRun(41)
const V4 = forbiddenIpv4(new SeededRandom(SEED)).filter((address) => address !== '127.0.0.1')
const V6 = forbiddenIpv6()
const ALL = [...V4, ...V6]
const HOSTS = [...V4.flatMap(ipv4Hosts), ...V6.flatMap(ipv6Hosts)]
/** Public addresses that a name may resolve to in addition to the forbidden one. */
const PUBLIC = ['93.184.216.34', '2606:2800:220:1::1']
/** The only address that may be reached here: the test's own. */
const OWN = '127.0.0.1'
const AT_A_TIME = 64
const REDIRECTS = [301, 302, 303, 307, 308]

const clock = createClock()
const cases: Record<string, number> = {}
const senders: { close(): Promise<void> }[] = []
let location = ''
let code = 200
let own: RawReceiver
let dialled: Dialled

beforeAll(async () => {
  own = await startRawReceiver((socket) =>
    onRequest(socket, () => {
      const to = code === 200 ? '' : `location: ${location}\r\n`
      socket.write(`HTTP/1.1 ${code} X\r\n${to}content-length: 0\r\nconnection: close\r\n\r\n`, () =>
        socket.end(),
      )
    }),
  )
  dialled = watchDialling()
})

afterEach(async () => {
  for (const sender of senders.splice(0)) await sender.close()
})

afterAll(async () => {
  dialled.stop()
  await own.close()
  const forbidden = dialled.addresses.filter((address) => address !== OWN)
  const tried = Object.values(cases).reduce((sum, one) => sum + one, 0)
  tellFigures('addresses', {
    seed: SEED,
    cases: tried,
    ...cases,
    'connections to forbidden addresses': forbidden.length,
    'connections to the allowed one': dialled.addresses.length - forbidden.length,
  })
})

/** @param answers DNS answers of each name, one query after another; the last one stays */
function sender(allowedNetworks: readonly string[], answers: (name: string, question: number) => string[]) {
  const asked = new Map<string, number>()
  const ask = (family: 4 | 6) => async (name: string) => {
    const question = asked.get(name) ?? 0
    if (family === 6) asked.set(name, question + 1)
    const found = answers(name, question).filter((one) => one.includes(':') === (family === 6))
    if (found.length > 0) return found
    throw Object.assign(new Error('no data'), { code: 'ENODATA' })
  }
  const nameServer: NameServer = { resolve4: ask(4), resolve6: ask(6) }
  const created = createWebhookSender({ networks: { allowed: allowedNetworks }, clock, nameServer })
  senders.push(created)
  return (url: string) => created.send({ url, headers: {}, body: Buffer.from('{}'), deadlineMs: 20_000 })
}

/** Counts the cases of a kind. @returns the unexpected results */
async function wrongOf<T>(
  kind: string,
  all: readonly T[],
  isWanted: (one: T) => Promise<boolean>,
): Promise<T[]> {
  cases[kind] = (cases[kind] ?? 0) + all.length
  const wrong: T[] = []
  for (let i = 0; i < all.length; i += AT_A_TIME) {
    const some = all.slice(i, i + AT_A_TIME)
    const wanted = await Promise.all(some.map(isWanted))
    wrong.push(...some.filter((_, index) => !wanted[index]))
  }
  return wrong
}

function isBlocked(outcome: SendOutcome): boolean {
  return outcome.kind === 'failure' && outcome.class === 'blocked' && outcome.error === 'connection refused'
}

function forbiddenDials(): string[] {
  return dialled.addresses.filter((address) => address !== OWN)
}

const nameOf = (address: string) => `${address.replaceAll(/[.:]/g, '-')}-x.example.com`

test('the watch over sockets sees a connection that is allowed', async () => {
  const before = dialled.addresses.length
  expect(await sender([`${OWN}/32`], () => [])(`http://${OWN}:${own.port}/`)).toMatchObject({ code: 200 })
  expect(dialled.addresses.slice(before)).toEqual([OWN])
})

test('in any spelling, by https and http', async () => {
  const send = sender([], () => PUBLIC)
  const urls = HOSTS.flatMap((host) => [`https://${host}:${own.port}/x`, `http://${host}/x`])
  expect(await wrongOf('spellings', urls, async (url) => isBlocked(await send(url)))).toEqual([])
  expect(forbiddenDials()).toEqual([])
})

test('in a URL that seems to be another one', async () => {
  const send = sender([], () => PUBLIC)
  // A relative URL, or one that the parser repairs, names no other host than the forbidden one, or none.
  const urls = V4.flatMap(trickyUrls)
  expect(await wrongOf('tricks', urls, async (url) => isBlocked(await send(url)))).toEqual([])
  expect(forbiddenDials()).toEqual([])
})

test('behind a name, alone or among public addresses, in whatever order', async () => {
  const byName = new Map(ALL.map((address) => [nameOf(address), address]))
  for (const shape of [
    (address: string) => [address],
    (address: string) => [...PUBLIC, address],
    (address: string) => [address, ...PUBLIC],
  ]) {
    const send = sender([], (name) => shape(byName.get(name) ?? ''))
    const names = [...byName.keys()].map((name) => `https://${name}/x`)
    expect(await wrongOf('names', names, async (url) => isBlocked(await send(url)))).toEqual([])
  }
  expect(forbiddenDials()).toEqual([])
})

test('behind a name that showed an allowed address before, at each turn', async () => {
  const byName = new Map(ALL.map((address) => [nameOf(address), address]))
  const send = sender([`${OWN}/32`], (name, question) =>
    question % 2 === 0 ? [OWN] : [byName.get(name) ?? ''],
  )
  const wrong = await wrongOf('rebindings', [...byName.keys()], async (name) => {
    const url = `http://${name}:${own.port}/x`
    const turns = [await send(url), await send(url), await send(url), await send(url)]
    const [first, second, third, fourth] = turns
    const reached = [first, third].every((one) => one?.kind === 'response' && one.code === 200)
    return reached && [second, fourth].every((one) => one !== undefined && isBlocked(one))
  })
  expect(wrong).toEqual([])
  expect(forbiddenDials()).toEqual([])
})

test('behind a redirect of any kind', async () => {
  const send = sender([`${OWN}/32`], () => [])
  const wrong: string[] = []
  for (const redirect of REDIRECTS) {
    for (const address of ALL) {
      code = redirect
      location = `http://${address.includes(':') ? `[${address}]` : address}:${own.port}/x`
      wrong.push(
        ...(await wrongOf('redirects', [location], async () => {
          const outcome = await send(`http://${OWN}:${own.port}/x`)
          return outcome.kind === 'response' && outcome.code === redirect
        })),
      )
    }
  }
  code = 200
  expect(wrong).toEqual([])
  expect(forbiddenDials()).toEqual([])
})
