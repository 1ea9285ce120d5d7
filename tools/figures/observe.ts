import { setTimeout as sleep } from 'node:timers/promises'
import type { Flow } from './flows.ts'

/** After these, lazily loaded modules and connections are there. */
const WARM_UPS = 3
/** An odd number. Periodic work, such as renewing a Lease, occurs in some plays and not in others. */
const PLAYS = 5
/** Deferred work of a flow is done by then. */
const QUIET_MS = 2000

export type Observed = { title: string; plays: Play[] }
export type Play = {
  ms: number
  /** Product files of which a function ran in any participating process. */
  files: string[]
}

/** Plays the flow in warm processes. @returns the plays, those with the fewest files first */
export async function observe(flow: Flow): Promise<Observed> {
  for (let played = 0; played < WARM_UPS; played++) await playOnce(flow)
  const plays: Play[] = []
  for (let played = 0; played < PLAYS; played++) plays.push(await playOnce(flow))
  return { title: flow.title, plays: plays.sort((one, other) => one.files.length - other.files.length) }
}

export function observedLines({ title, plays }: Observed, options: { list: boolean }): string[] {
  const [fewest, median, most] = [plays[0], plays[Math.floor(plays.length / 2)], plays.at(-1)]
  if (!fewest || !median || !most) throw new Error(`${title} was not run`)
  const range = `${fewest.files.length} to ${most.files.length} in ${plays.length} runs`
  const line = `  ${title}: ${median.files.length} (${range}, ${Math.round(median.ms)} ms)`
  return [line, ...(options.list ? median.files.map((path) => `    ${path}`) : [])]
}

async function playOnce(flow: Flow): Promise<Play> {
  const roles = await flow.prepare()
  await sleep(QUIET_MS)
  for (const role of roles) await role.take()
  const begin = performance.now()
  await flow.play()
  const ms = performance.now() - begin
  const files = new Set<string>()
  for (const role of roles) for (const path of await role.take()) files.add(path)
  await flow.verify?.()
  return { ms, files: [...files].sort() }
}
