import { spawnSync } from 'node:child_process'

/**
 * From now on neither this process nor what it starts writes a core when it is killed: a core has all secrets that were in memory.
 * @returns whether it could be done; it takes `prlimit` of util-linux
 */
export function disableCoreDumps(): boolean {
  const { status } = spawnSync('prlimit', [`--pid=${process.pid}`, '--core=0:0'], { stdio: 'ignore' })
  return status === 0
}
