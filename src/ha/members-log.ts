/** Tells people which replicas come, leave and fall silent, and what becomes of their shards. */
import type { ShardCoordinatorOptions } from './shard-work.ts'

export type MembershipChange = {
  before: readonly string[]
  after: readonly string[]
  /** By `before`, and by `after`. */
  ownersBefore: readonly string[]
  owners: readonly string[]
  /** Its Lease has ended, and it has not said that it left. */
  isSilent(name: string): boolean
}

/** @param teller the replica that tells, which says of itself elsewhere that it comes or ends */
export function logMembership(
  teller: Pick<ShardCoordinatorOptions, 'name' | 'times' | 'log'>,
  { before, after, ownersBefore, owners, isSilent }: MembershipChange,
): void {
  const { name: own, times, log } = teller
  if (!before.includes(own) || !after.includes(own)) return
  const gone = before.filter((name) => !after.includes(name))
  for (const replica of gone) {
    const facts = { replica, shards: count(ownersBefore, replica), live: after.length }
    if (isSilent(replica))
      log.warn('Another replica is silent: its shards stand still until nothing of it can be under way', {
        ...facts,
        seconds: times.drainMs / 1000,
      })
    else log.info('Another replica leaves', facts)
  }
  for (const replica of after.filter((name) => !before.includes(name)))
    log.info('Another replica has come', { replica, shards: count(owners, replica), live: after.length })
}

function count(owners: readonly string[], name: string): number {
  return owners.filter((owner) => owner === name).length
}
