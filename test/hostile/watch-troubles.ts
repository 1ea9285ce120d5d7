/** Ways in which the watches of an API server break, all the time, and how many lists and watches are asked for meanwhile. */
import { kinds } from '../../tools/docgen/crd.ts'
import { type ApiFront, type FrontAnswer, type FrontRequest, tooBusy } from '../support/api-front.ts'
import { tellFigures } from './figures.ts'

const FOR_EVER = 1_000_000
/** How long each trouble lasts: ten seconds in `npm test`. */
export const STORM_MS = Number(process.env.STORM_SECONDS ?? 10) * 1000
/** Then waits have grown, and figures are worth keeping. */
const IS_LONG = STORM_MS > 10_000

/**
 * Of one kind of object in a minute; in the first ten seconds the waits still grow. Each event that a controller accepts lists the
 * endpoints of its organization as well: 30 in a minute here.
 */
export const MOST_LISTS_A_MINUTE = IS_LONG ? 50 : 100
/** A watch that was cut asks for the version of the store first, by a list of one object; news makes its next wait short again. */
const MOST_ASKED_A_MINUTE = IS_LONG ? 180 : 240

const isWatch = ({ isWatch }: FrontRequest) => isWatch

export type Trouble = {
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

export const TROUBLES: Trouble[] = [
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

/** Of a minute, by kind of object: the most lists of one, all of them, and watches. */
export function countsOf(requests: readonly FrontRequest[], minutes: number) {
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

/** @param name of the file that keeps them */
export function tellStorm(name: string, figures: Readonly<Record<string, number>>): void {
  if (IS_LONG)
    tellFigures(name, { troubles: TROUBLES.length, 'seconds of each': STORM_MS / 1000, ...figures })
}
