/**
 * Holds a process to a part of a core, as the CPU limit of a pod does: by a control group of the kernel, which lets it run for a
 * part of each tenth of a second. Needs Linux, and the right to make groups.
 */
import { existsSync, mkdirSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = '/sys/fs/cgroup'
const PERIOD_US = 100_000

type Way = {
  /** The group in which processes are that nobody limits. */
  parent: string
  prepare?(): void
  limit(group: string, quotaUs: number): void
}

/** Where the CPU has a hierarchy of its own, and where all resources share one. */
const SEPARATE: Way = {
  parent: join(ROOT, 'cpu'),
  limit(group, quotaUs) {
    writeFileSync(join(group, 'cpu.cfs_period_us'), String(PERIOD_US))
    writeFileSync(join(group, 'cpu.cfs_quota_us'), String(quotaUs))
  },
}
const UNIFIED: Way = {
  parent: ROOT,
  prepare: () => writeFileSync(join(ROOT, 'cgroup.subtree_control'), '+cpu'),
  limit: (group, quotaUs) => writeFileSync(join(group, 'cpu.max'), `${quotaUs} ${PERIOD_US}`),
}

/** @returns why this user cannot limit CPU here; undefined where it can */
export function whyNoLimits(): string | undefined {
  const way = wayOfKernel()
  try {
    way.prepare?.()
    const group = join(way.parent, `davit-bench-probe-${process.pid}`)
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

/**
 * @param cores of each of the processes, 0.1 for a tenth of one core
 * @returns what takes the limits off again
 * @throws Error where the kernel has no such groups, or does not let this user make them
 */
export function limitCpu(pids: readonly number[], cores: number): () => void {
  const way = wayOfKernel()
  const groups: { group: string; pid: number }[] = []
  const release = () => {
    for (const { group, pid } of groups) {
      // What ended meanwhile is in no group any more.
      if (existsSync(`/proc/${pid}`)) writeFileSync(join(way.parent, 'cgroup.procs'), String(pid))
      rmdirSync(group)
    }
  }
  try {
    way.prepare?.()
    for (const pid of pids) {
      const group = join(way.parent, `davit-bench-${pid}`)
      mkdirSync(group)
      groups.push({ group, pid })
      way.limit(group, Math.round(cores * PERIOD_US))
      writeFileSync(join(group, 'cgroup.procs'), String(pid))
    }
    return release
  } catch (error) {
    release()
    throw error
  }
}

function wayOfKernel(): Way {
  return existsSync(join(ROOT, 'cgroup.controllers')) ? UNIFIED : SEPARATE
}
