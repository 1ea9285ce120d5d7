/** Ways to continuously break the watches of an API server, and the number of lists and watches in reaction. */
import { kinds } from '../../tools/docgen/crd.ts'
import { type ApiFront, type FrontAnswer, type FrontRequest, tooBusy } from '../support/api-front.ts'
import { tellFigures } from './figures.ts'

const FOR_EVER = 1_000_000
/** How long each trouble lasts: ten seconds in `npm test`. */
export const STORM_MS = Number(process.env.STORM_SECONDS ?? 10) * 1000
/** Then waits have grown, and figures are worth keeping. */
const IS_LONG = STORM_MS > 10_000

/**
 * For one kind of object per minute; in the first ten seconds the waits still grow. Each event that a controller accepts lists
 * the endpoints of its organization as well: 30 per minute here.
 */
export const MOST_LISTS_A_MINUTE = IS_LONG ? 50 : 100
/**
 * A broken watch first requests the version of the store, by a list of one object; an event makes its next wait short again. Leases have
 * most of them: eight REST servers renew theirs every two seconds.
 */
const MOST_ASKED_A_MINUTE = IS_LONG ? 300 : 360

const isWatch = ({ isWatch }: FrontRequest) => isWatch

export type Trouble = {
  name: string
  mostLists?: number
  /** @returns a function that ends it */
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

/** Breaks open watches when it begins. */
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

/** Per minute, by kind of object: the maximum of lists of one kind, all lists, and watches. */
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

/** Whether the path is a list; that of an object has a name behind the kind. */
function isCollection(path: string): boolean {
  return COLLECTIONS.has(path.split('/').at(-1) ?? '')
}

/** @param name of the file for them */
export function tellStorm(name: string, figures: Readonly<Record<string, number>>): void {
  if (IS_LONG)
    tellFigures(name, { troubles: TROUBLES.length, 'seconds of each': STORM_MS / 1000, ...figures })
}
