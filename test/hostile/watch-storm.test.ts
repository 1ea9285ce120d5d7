/**
 * An API server whose watches break in every way, all the time: the controller's lists stay few, and what is published
 * meanwhile arrives. Each trouble has a controller of its own, behind a front of its own.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, describe, expect, inject, test } from 'vitest'
import { kinds } from '../../src/api/kinds.ts'
import {
  type ApiFront,
  type FrontAnswer,
  type FrontRequest,
  startApiFront,
  tooBusy,
} from '../support/api-front.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { startReceiver } from '../support/receiver.ts'
import { tellFigures } from './figures.ts'

const LASTS_MS = 10_000
const LIMIT_MS = 120_000
const FOR_EVER = 1_000_000
const EVENTS = 5
/**
 * Of one kind of object in a minute, by the first ten seconds, in which the waits still grow. Each event lists the endpoints of its
 * organization as well: 30 in a minute here.
 */
const MOST_LISTS_A_MINUTE = 100
/** A watch that was cut asks for the version of the store first, by a list of one object; news makes its next wait short again. */
const MOST_ASKED_A_MINUTE = 240

const isWatch = ({ isWatch }: FrontRequest) => isWatch

type Trouble = {
  name: string
  mostLists?: number
  /** @returns the call that ends it */
  begin: (front: ApiFront) => () => void
}

function status(code: number, reason: string): FrontAnswer {
  const body = JSON.stringify({
    kind: 'Status',
    apiVersion: 'v1',
    status: 'Failure',
    reason,
    code,
    message: reason,
  })
  return { status: code, headers: { 'content-type': 'application/json' }, body }
}

function stream(body: string): FrontAnswer {
  return { status: 200, headers: { 'content-type': 'application/json' }, body }
}

const EXPIRED = JSON.stringify({
  type: 'ERROR',
  object: {
    kind: 'Status',
    apiVersion: 'v1',
    status: 'Failure',
    reason: 'Expired',
    code: 410,
    message: 'too old',
  },
})

/** Watches that are open break when it begins. */
function always(answer: FrontAnswer): Trouble['begin'] {
  return (front) => {
    const end = front.answer(isWatch, answer, FOR_EVER)
    front.cutWatches(isWatch)
    return end
  }
}

const TROUBLES: Trouble[] = [
  {
    name: 'cut ten times a second',
    mostLists: MOST_ASKED_A_MINUTE,
    begin: (front) => {
      const timer = setInterval(() => front.cutWatches(isWatch), 100)
      return () => clearInterval(timer)
    },
  },
  { name: 'answered with 410', begin: always(status(410, 'Expired')) },
  { name: 'that say at once that they are too old', begin: always(stream(`${EXPIRED}\n`)) },
  { name: 'answered with 500', begin: always(status(500, 'InternalError')) },
  { name: 'answered with 429', begin: always(tooBusy(1)) },
  { name: 'that end at once', begin: always(stream('')) },
  { name: 'that say garbage', begin: always(stream('{"type":"ADDED","object":\n')) },
]

/** By kind of object, the most and in all. */
function countsOf(requests: readonly FrontRequest[], minutes: number) {
  const lists = new Map<string, number>()
  for (const { method, path, isWatch } of requests) {
    if (method === 'GET' && !isWatch && isCollection(path)) lists.set(path, (lists.get(path) ?? 0) + 1)
  }
  const watches = requests.filter(isWatch)
  const kinds = new Set(watches.map(({ path }) => path)).size || 1
  return {
    most: Math.max(0, ...lists.values()) / minutes,
    all: [...lists.values()].reduce((sum, one) => sum + one, 0) / minutes,
    watches: watches.length / minutes / kinds,
  }
}

const COLLECTIONS = new Set([...kinds.map(({ plural }) => plural), 'namespaces', 'secrets', 'leases'])

/** Of a list; an object has its own name behind that of its kind. */
function isCollection(path: string): boolean {
  return COLLECTIONS.has(path.split('/').at(-1) ?? '')
}

async function publishSome(davit: TestDavit, from: number): Promise<void> {
  for (let n = from; n < from + EVENTS; n += 1) {
    await davit.publishOnly('billing.updated', { n })
    await sleep(LASTS_MS / EVENTS / 2)
  }
}

describe.concurrent('watches', () => {
  const figures: Record<string, number> = {}
  afterAll(() =>
    tellFigures('watch-storm', { troubles: TROUBLES.length, 'seconds of each': LASTS_MS / 1000, ...figures }),
  )

  test.for(TROUBLES)(
    '$name',
    { timeout: LIMIT_MS },
    async ({ name, begin, mostLists = MOST_LISTS_A_MINUTE }) => {
      const front = await startApiFront(inject('adminAccess'))
      const receiver = await startReceiver()
      const cluster = { access: inject('adminAccess'), kubeconfigPath: front.kubeconfigPath }
      const davit = await startDavit('watches', { cluster })
      try {
        await davit.endpoint('good', { url: `${receiver.url}/good`, eventTypes: ['billing.updated'] })
        const before = front.requests.length
        const end = begin(front)
        const began = performance.now()
        const publishing = publishSome(davit, 0)
        await sleep(LASTS_MS)
        await publishing
        const minutes = (performance.now() - began) / 60_000
        const { most, all, watches } = countsOf(front.requests.slice(before), minutes)
        end()
        await receiver.waitFor(EVENTS, { path: '/good', timeoutMs: 60_000 })
        figures[`${name}: lists of one kind a minute, most`] = Math.round(most)
        figures[`${name}: lists a minute, all kinds`] = Math.round(all)
        figures[`${name}: watches of a kind a minute`] = Math.round(watches)
        figures[`${name}: events received`] = receiver.received('/good').length
        expect(most).toBeLessThanOrEqual(mostLists)
        expect(receiver.received('/good')).toHaveLength(EVENTS)
      } finally {
        await davit.stop()
        await receiver.close()
        await front.stop()
      }
    },
  )
})
