/** Which functions a process spends its time in, of a CPU profile of V8 (`.cpuprofile`). */
import { z } from 'zod'

const frame = z.object({ functionName: z.string(), url: z.string(), lineNumber: z.number() })

/** What is used of one; times in microseconds. */
export const cpuProfile = z.object({
  nodes: z.array(z.object({ id: z.number(), callFrame: frame })),
  startTime: z.number(),
  endTime: z.number(),
  /** The node that was on top of the stack, and the time since the sample before, or since the start. */
  samples: z.array(z.number()),
  timeDeltas: z.array(z.number()),
})
export type CpuProfile = z.output<typeof cpuProfile>

export type SelfTime = {
  /** V8's own names are in parentheses, such as `(garbage collector)`. */
  name: string
  /** File and line; empty for V8's own. */
  place: string
  ms: number
  /** Of the time in which the process was not idle. */
  share: number
}

export type SelfTimes = { busyMs: number; functions: SelfTime[] }

const NOT_BUSY = new Set(['(idle)', '(root)'])

/** @returns so many functions that take most time without the functions that they call, longest first */
export function longestSelfTimes(profile: CpuProfile, count: number): SelfTimes {
  const byFunction = new Map<string, { name: string; place: string; us: number }>()
  const durations = durationsOf(profile)
  for (const { id, callFrame } of profile.nodes) {
    const name = callFrame.functionName || '(anonymous)'
    const us = durations.get(id) ?? 0
    if (us === 0 || NOT_BUSY.has(name)) continue
    const place = placeOf(callFrame)
    const key = `${name} ${place}`
    byFunction.set(key, { name, place, us: us + (byFunction.get(key)?.us ?? 0) })
  }
  const busy = [...byFunction.values()].reduce((sum, { us }) => sum + us, 0)
  const longest = [...byFunction.values()].sort((a, b) => b.us - a.us).slice(0, count)
  return {
    busyMs: busy / 1000,
    functions: longest.map(({ name, place, us }) => ({ name, place, ms: us / 1000, share: us / busy })),
  }
}

/** Each sample counts until the next one, the last one until the end. */
function durationsOf({ samples, timeDeltas, startTime, endTime }: CpuProfile): Map<number, number> {
  const durations = new Map<number, number>()
  let at = startTime
  samples.forEach((id, index) => {
    at += timeDeltas[index] ?? 0
    const us = index + 1 < samples.length ? (timeDeltas[index + 1] ?? 0) : endTime - at
    // V8 delivers some samples late, with a time before that of their predecessor.
    durations.set(id, (durations.get(id) ?? 0) + Math.max(0, us))
  })
  return durations
}

/** The path of the project or of a package, and no folder of this machine. */
function placeOf({ url, lineNumber }: CpuProfile['nodes'][number]['callFrame']): string {
  if (url === '') return ''
  const path =
    /node_modules\/((?:(?!node_modules\/).)*)$/.exec(url)?.[1] ?? /\/((?:src|test)\/.*)$/.exec(url)?.[1]
  return `${path ?? url.replace(/^file:.*\//, '')}:${lineNumber + 1}`
}
