/**
 * REST servers whose watches break in every way, continuously: they list rarely, a publish is accepted or, after watches have
 * been broken for seconds, rejected with a retry, and accepted events arrive. Each trouble has its own REST server and proxy.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ApiFront } from '../support/api-front.ts'
import { EVENTS, type FrontedServer, HOOKS, startFrontedServer } from '../support/fronted-server.ts'
import type { ServerProcess } from '../support/installation.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { ask } from '../support/server-bed.ts'
import { until } from '../support/until.ts'
import { countsOf, MOST_LISTS_A_MINUTE, STORM_MS, TROUBLES, tellStorm } from './watch-troubles.ts'

const LIMIT_MS = 110_000 + STORM_MS
/** Five storms run at a time, and each publish is news for all: one event per second, as in a controller's storm. */
const PUBLISH_EVERY_MS = 5000
const TYPE = 'environment.started'

let bed: FrontedServer
let receiver: Receiver
const servers = new Map<string, { front: ApiFront; server: ServerProcess }>()

beforeAll(async () => {
  receiver = await startReceiver()
  bed = await startFrontedServer()
  await (await bed.davit.startController()).untilReady()
  const made = await bed.post(HOOKS, { url: `${receiver.url}/good`, eventTypes: [TYPE] })
  expect(made.status).toBe(201)
  for (const { name } of TROUBLES) servers.set(name, await bed.startBehindFront())
}, 240_000)

afterAll(async () => {
  await bed?.stop()
  for (const { front } of servers.values()) await front.stop()
  await receiver?.close()
})

async function publish(server: ServerProcess): Promise<{ status: number; id: string }> {
  const body = JSON.stringify({ type: TYPE, data: {} })
  const { status, json } = await ask(server, EVENTS, { method: 'POST', key: bed.key, body })
  return { status, id: String(json.eventId) }
}

/** @returns ids of accepted events, the number of rejections with a retry, and every answer */
async function publishFor(server: ServerProcess, ms: number) {
  const accepted: string[] = []
  let refused = 0
  const answers = new Set<number>()
  const deadline = performance.now() + ms
  while (performance.now() < deadline) {
    const { status, id } = await publish(server)
    answers.add(status)
    if (status === 202) accepted.push(id)
    if (status === 503) refused += 1
    await sleep(PUBLISH_EVERY_MS)
  }
  return { accepted, refused, answers }
}

function receivedIds(): Set<string> {
  return new Set(receiver.received('/good').map(({ headers }) => String(headers['webhook-id'])))
}

/** A single server may accept none: five seconds after the last word of a watch it rejects, and a busy machine needs as long for one. */
let acceptedInTrouble = 0

describe.concurrent('watches of a REST server', () => {
  const figures: Record<string, number> = {}
  afterAll(() => tellStorm('rest-server-storm', figures))

  test.for(TROUBLES)(
    '$name',
    { timeout: LIMIT_MS },
    async ({ name, begin, mostLists = MOST_LISTS_A_MINUTE }) => {
      const { front, server } = servers.get(name) ?? (await bed.startBehindFront())
      const before = front.requests.length
      const end = begin(front)
      const began = performance.now()
      const { accepted, refused, answers } = await publishFor(server, STORM_MS)
      const minutes = (performance.now() - began) / 60_000
      const { most, all, watches } = countsOf(front.requests.slice(before), minutes)
      end()
      figures[`${name}: lists of one kind a minute, most`] = Math.round(most)
      figures[`${name}: lists a minute, all kinds`] = Math.round(all)
      figures[`${name}: watches of a kind a minute`] = Math.round(watches)
      figures[`${name}: events accepted`] = accepted.length
      figures[`${name}: events told to come again`] = refused
      expect(most).toBeLessThanOrEqual(mostLists)
      acceptedInTrouble += accepted.length
      expect([...answers].filter((status) => status !== 202 && status !== 503)).toEqual([])
      const afterwards = await until(
        async () => {
          const { status, id } = await publish(server)
          return status === 202 ? id : undefined
        },
        () => 'nothing is accepted once watches are well again',
      )
      const wanted = [...accepted, afterwards]
      await until(
        async () => wanted.every((id) => receivedIds().has(id)) || undefined,
        () =>
          `received ${receivedIds().size}; ${wanted.filter((id) => !receivedIds().has(id)).length} are missing`,
      )
    },
  )
})

test('publishing goes on through some of them', () => {
  expect(acceptedInTrouble).toBeGreaterThan(0)
})
