/** Measures whether the memory of a process grows. */
import { readdirSync } from 'node:fs'
import type { DavitRole } from '../../bench/davit-role.ts'
import { residentBytes } from '../../bench/measure/process-usage.ts'
import { rounded } from '../figures.ts'

/** Bytes and open files, `at` seconds after the start. */
export type MemorySample = { at: number; heap: number; resident: number; files: number }

export async function sampleMemory(role: DavitRole, at: number): Promise<MemorySample> {
  return {
    at,
    heap: await role.call('heap', null),
    resident: residentBytes(role.pid),
    files: readdirSync(`/proc/${role.pid}/fd`).length,
  }
}

/** Caches fill and code is compiled during this share of the run. */
const WARM_SHARE = 0.25

/** Memory and its growth, without the beginning of the run. */
export function growthOf(samples: readonly MemorySample[]) {
  const steady = samples.slice(Math.floor(samples.length * WARM_SHARE))
  const perHour = (of: (sample: MemorySample) => number) =>
    slopeOf(steady.map((sample) => ({ x: sample.at / 3600, y: of(sample) })))
  return {
    'heap at the start of the steady part, MB': mb(steady[0]?.heap ?? 0),
    'heap at the end, MB': mb(samples.at(-1)?.heap ?? 0),
    'heap slope, MB/h': mb(perHour(({ heap }) => heap)),
    'resident slope, MB/h': mb(perHour(({ resident }) => resident)),
    'most resident, MB': mb(Math.max(0, ...samples.map(({ resident }) => resident))),
    'open files, most': Math.max(0, ...samples.map(({ files }) => files)),
    'open files at the end': samples.at(-1)?.files ?? 0,
  }
}

export function wordsOf({ heap, resident, files }: MemorySample): string {
  return `heap ${mb(heap)} MB, resident ${mb(resident)} MB, ${files} files`
}

function mb(bytes: number): number {
  return rounded(bytes / 2 ** 20)
}

/** The slope of the line through the points, by least squares; 0 for fewer than two. */
export function slopeOf(points: readonly { x: number; y: number }[]): number {
  const mean = (values: readonly number[]) => values.reduce((sum, one) => sum + one, 0) / (values.length || 1)
  const x0 = mean(points.map(({ x }) => x))
  const y0 = mean(points.map(({ y }) => y))
  const spread = points.reduce((sum, { x }) => sum + (x - x0) ** 2, 0)
  return spread === 0 ? 0 : points.reduce((sum, { x, y }) => sum + (x - x0) * (y - y0), 0) / spread
}
