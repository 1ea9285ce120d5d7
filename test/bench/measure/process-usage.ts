/** What processes use, as Linux counts it. */
import { readFileSync } from 'node:fs'

/** Ticks a second of the times in /proc: a constant of Linux's interface on the platforms that Node runs on. */
const TICKS_PER_SECOND = 100
const PAGE_BYTES = 4096

/** CPU time of the process and of its threads since its start, in milliseconds; whole 10 ms. */
export function cpuMilliseconds(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  // The name in parentheses may contain anything.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return ((Number(fields[11]) + Number(fields[12])) * 1000) / TICKS_PER_SECOND
}

/** Resident memory, in bytes. */
export function residentBytes(pid: number): number {
  const [, resident] = readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')
  return Number(resident) * PAGE_BYTES
}

/** The most that was ever resident, in bytes. */
export function peakResidentBytes(pid: number): number {
  return 1024 * fieldOf(`/proc/${pid}/status`, 'VmHWM')
}

/** From files and connections since its start. */
export function bytesRead(pid: number): number {
  return fieldOf(`/proc/${pid}/io`, 'rchar')
}

/** @throws Error if there is no such line */
function fieldOf(path: string, name: string): number {
  const value = new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(readFileSync(path, 'utf8'))?.[1]
  if (value === undefined) throw new Error(`${path} does not say ${name}`)
  return Number(value)
}

export type Usage = Record<string, number>

/** CPU milliseconds of each, by name. */
export function cpuOf(pids: Record<string, number>): Usage {
  return Object.fromEntries(Object.entries(pids).map(([name, pid]) => [name, cpuMilliseconds(pid)]))
}

export function usageSince(before: Usage, now: Usage): Usage {
  return Object.fromEntries(Object.entries(now).map(([name, ms]) => [name, ms - (before[name] ?? 0)]))
}
