/** Reads the results files that tests and measurements write. */
import { z } from 'zod'
import { fleetFiguresOf } from './fleet-runs.ts'

const FOLDER = 'test/hostile/results'
export const FLEET_RUNS = 'test/chaos/results/fleet.json'
/** Results files of runs in other folders. */
const OTHERS: Record<string, { path: string; command: string; of: (text: string) => unknown }> = {
  fleet: {
    path: FLEET_RUNS,
    command: 'npm run test:chaos -- --fleet --sum',
    of: fleetFiguresOf,
  },
  mutation: {
    path: 'test/mutation/results/mutation.json',
    command: 'npm run test:mutation',
    of: (text) => JSON.parse(text) as unknown,
  },
  'shard-keeper': {
    path: 'test/mutation/results/shard-keeper.json',
    command: 'npm run test:mutation -- --mutate src/ha/coordinator.ts',
    of: (text) => JSON.parse(text) as unknown,
  },
  credentials: {
    path: 'bench/results/credentials.json',
    command: 'npm run bench -- --only credentials',
    of: (text) => JSON.parse(text) as unknown,
  },
}

const stamp = {
  measuredAt: z.string().optional(),
  seed: z.number().optional(),
}
const found = z.looseObject(stamp)
const hostile = z.object({ ...stamp, command: z.string(), figures: z.record(z.string(), z.unknown()) })
const tests = z.object({
  ...stamp,
  command: z.string(),
  tests: z.record(z.string(), z.object({ passed: z.number(), failed: z.number() })),
})

/** When and how figures were measured. The files record the commit; the page does not, since history may be rewritten. */
export type Origin = { measuredAt?: string; seed?: number; command: string }

export type FoundFigures = Origin & { figures: Record<string, unknown> }

export type FoundTests = Origin & { tests: Record<string, { passed: number; failed: number }> }

export type Read = (path: string) => string | undefined

/** @returns undefined without such a run */
export function figuresOf(name: string, read: Read): FoundFigures | undefined {
  const other = OTHERS[name]
  const text = read(other?.path ?? `${FOLDER}/${name}.json`)
  if (text === undefined) return undefined
  if (!other) return defined(hostile.parse(JSON.parse(text)))
  const all = other.of(text)
  if (all === undefined) return undefined
  const { measuredAt, seed, ...figures } = found.parse(all)
  return defined({ measuredAt, seed, command: other.command, figures })
}

/** Files with case results; later ones take precedence. */
const CASES = ['cases-new', 'cases-hostile', 'cases-tests']

/** The results of each run, by file name. */
export function testRuns(read: Read): [string, FoundTests | undefined][] {
  return CASES.map((name) => {
    const text = read(`${FOLDER}/${name}.json`)
    return [name, text === undefined ? undefined : defined(tests.parse(JSON.parse(text)))]
  })
}

/** By reference, across all runs. */
export function casesRun(read: Read): FoundTests['tests'] {
  return Object.assign({}, ...testRuns(read).map(([, run]) => run?.tests ?? {})) as FoundTests['tests']
}

/** The figure of a key; a dot descends one level unless there is such a key. */
export function valueAt(figures: unknown, key: string): unknown {
  if (typeof figures !== 'object' || figures === null) return undefined
  const own = figures as Record<string, unknown>
  if (key in own) return own[key]
  const dot = key.indexOf('.')
  return dot < 0 ? undefined : valueAt(own[key.slice(0, dot)], key.slice(dot + 1))
}

function defined<T extends object>(value: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  const entries = Object.entries(value).filter(([, one]) => one !== undefined)
  return Object.fromEntries(entries) as { [K in keyof T]: Exclude<T[K], undefined> }
}
