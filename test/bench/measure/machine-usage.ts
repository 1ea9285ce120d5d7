/** How busy the whole machine is, as Linux counts it. */
import { readFileSync } from 'node:fs'

/** Ticks of all cores since the machine started: busy ones, and all. */
export type MachineTicks = { busy: number; all: number }

export function machineTicks(): MachineTicks {
  const [line = ''] = readFileSync('/proc/stat', 'utf8').split('\n')
  // user nice system idle iowait irq softirq steal; guests are part of user.
  const [user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0] = line
    .split(/\s+/)
    .slice(1, 9)
    .map(Number)
  const busy = user + nice + system + irq + softirq + steal
  return { busy, all: busy + idle + iowait }
}

/** Share of the cores that was busy since `before`. */
export function busySince(before: MachineTicks): number {
  const now = machineTicks()
  return (now.busy - before.busy) / Math.max(1, now.all - before.all)
}
