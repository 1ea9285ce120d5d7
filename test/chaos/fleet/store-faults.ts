/** Faults of API servers and etcd. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Fault, type FaultKind, STORE } from './faults.ts'
import type { Fleet } from './fleet.ts'

/** The period in which no process could store anything, by `performance.now()`. */
export type Away = { from: number; to: number }

export function isOfStore(kind: FaultKind): boolean {
  return STORE.has(kind)
}

/** Resolves when the fault is undone. @returns the period without a store, if there was one */
export async function doToStore(
  { davit: { controlPlane }, second }: Pick<Fleet, 'davit' | 'second'>,
  { kind, forMs, seed }: Fault,
): Promise<Away | undefined> {
  const without = async (stop: () => Promise<void>, start: () => Promise<void>) => {
    await stop()
    const from = performance.now()
    await sleep(forMs)
    const to = performance.now()
    await start()
    return { from, to }
  }
  switch (kind) {
    case 'API server restart':
      if (!second) return await without(controlPlane.stopApiServer, controlPlane.startApiServer)
      // While one is stopped, the other answers.
      if (seed % 2 === 0) await without(controlPlane.stopApiServer, controlPlane.startApiServer)
      else
        await without(
          () => second.stop(),
          () => second.start(),
        )
      return undefined
    case 'etcd restart':
      return await without(controlPlane.killEtcd, controlPlane.startEtcd)
    case 'no space in etcd':
      await controlPlane.setNoSpace(true)
      await sleep(forMs)
      await controlPlane.setNoSpace(false)
      return undefined
    case 'etcd compaction':
      await controlPlane.compactEtcd()
      return undefined
    default:
      throw new Error(`${kind} is not done to the store`)
  }
}
