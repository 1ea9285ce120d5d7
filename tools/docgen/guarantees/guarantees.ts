/** Reads the promises and failures of test/reports/guarantees.yaml, and the limits of figures. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'
import { z } from 'zod'

const DATA = fileURLToPath(new URL('../../../test/reports/guarantees.yaml', import.meta.url))

/** A promise or a failure with its evidence. */
const row = z.strictObject({
  name: z.string(),
  /** How the promise is kept, or what is expected. */
  how: z.string(),
  /** `` `file`: test title `` as in rules.md; `*` for all tests of the file. */
  tests: z.array(z.string()),
  /** Figures of one results file, by key; a dot descends one level. */
  figures: z.array(z.strictObject({ of: z.string(), keys: z.array(z.string()) })).exactOptional(),
})
const limit = z.union([z.strictObject({ atMost: z.number() }), z.strictObject({ atLeast: z.number() })])
const guarantees = z.strictObject({
  promises: z.array(row),
  failures: z.array(row),
  egress: z.array(row),
  restServer: z.array(row),
  /** By results file, and by key in it. */
  limits: z.record(z.string(), z.record(z.string(), limit)),
})

export type Row = z.infer<typeof row>
type Limit = z.infer<typeof limit>

export const GUARANTEES = guarantees.parse(parse(readFileSync(DATA, 'utf8')))
export const LIMITS: Readonly<Record<string, Readonly<Record<string, Limit>>>> = GUARANTEES.limits

/** Describes the figures that exceed their limits; missing figures do not count. */
export function brokenLimits(
  of: string,
  figure: (key: string) => unknown,
  limits = LIMITS[of] ?? {},
): string[] {
  return Object.entries(limits).flatMap(([key, limit]) => {
    const value = figure(key)
    return value === undefined || keeps(value, limit) ? [] : [`${of}: ${key} ${value}, ${boundText(limit)}`]
  })
}

/** `at most 0` */
export function boundText(limit: Limit): string {
  const [word, bound] = 'atMost' in limit ? ['at most', limit.atMost] : ['at least', limit.atLeast]
  return `${word} ${bound.toLocaleString('en-GB')}`
}

function keeps(value: unknown, limit: Limit): boolean {
  const number = Number(value)
  return 'atMost' in limit ? number <= limit.atMost : number >= limit.atLeast
}
