/**
 * Holds a process to a part of a core, as the CPU limit of a pod does: by a control group of the kernel, which lets it run for a
 * part of each tenth of a second. Needs Linux, and the right to make groups.
 */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = '/sys/fs/cgroup'
const PERIOD_US = 100_000

type Way = {
  /** Of all groups. */
  root: string
  /** Of a line of /proc/<pid>/cgroup, where it tells of the CPU. */
  line: RegExp
  prepare?(): void
  limit(group: string, quotaUs: number): void
}

/** Where the CPU has a hierarchy of its own, and where all resources share one. */
const SEPARATE: Way = {
  root: join(ROOT, 'cpu'),
  line: /^\d+:(?:[\w=]+,)*cpu(?:,[\w=]+)*:(.*)$/m,
  limit(group, quotaUs) {
    writeFileSync(join(group, 'cpu.cfs_period_us'), String(PERIOD_US))
    writeFileSync(join(group, 'cpu.cfs_quota_us'), String(quotaUs))
  },
}
const UNIFIED: Way = {
  root: ROOT,
  line: /^0::(.*)$/m,
  prepare: () => writeFileSync(join(ROOT, 'cgroup.subtree_control'), '+cpu'),
  limit: (group, quotaUs) => writeFileSync(join(group, 'cpu.max'), `${quotaUs} ${PERIOD_US}`),
}

/** @returns why this user cannot limit CPU here; undefined where it can */
export function whyNoLimits(): string | undefined {
  const way = wayOfKernel()
  try {
    way.prepare?.()
    const group = join(way.root, `davit-bench-probe-${process.pid}`)
    mkdirSync(group)
    try {
      way.limit(group, PERIOD_US)
    } finally {
      rmdirSync(group)
    }
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}

type Limited = {
  pid: number
  group: string
  /** Where it was. */
  before: string
}

/**
 * @param cores of each of the processes, 0.1 for a tenth of one core
 * @returns what takes the limits off again, and throws where one stays
 * @throws Error where the kernel has no such groups, or does not let this user make them; nothing is limited then
 */
export function limitCpu(pids: readonly number[], cores: number): () => void {
  const way = wayOfKernel()
  const limited: Limited[] = []
  try {
    way.prepare?.()
    for (const pid of pids) {
      const [, before = '/'] = way.line.exec(readFileSync(`/proc/${pid}/cgroup`, 'utf8')) ?? []
      const group = join(way.root, `davit-bench-${pid}`)
      mkdirSync(group, { recursive: true })
      limited.push({ pid, group, before: join(way.root, before) })
      way.limit(group, Math.round(cores * PERIOD_US))
      writeFileSync(join(group, 'cgroup.procs'), String(pid))
    }
  } catch (error) {
    releaseAll(limited)
    throw error
  }
  return () => {
    const [first] = releaseAll(limited)
    if (first !== undefined) throw first
  }
}

/** @returns what went wrong, of each that is still limited */
function releaseAll(limited: readonly Limited[]): unknown[] {
  return limited.flatMap(({ pid, group, before }) => {
    try {
      if (existsSync(`/proc/${pid}`)) writeFileSync(join(before, 'cgroup.procs'), String(pid))
      rmdirSync(group)
      return []
    } catch (error) {
      // What has ended meanwhile is limited no longer.
      return existsSync(`/proc/${pid}`) ? [error] : []
    }
  })
}

function wayOfKernel(): Way {
  return existsSync(join(ROOT, 'cgroup.controllers')) ? UNIFIED : SEPARATE
}
