import { GroupCommit, type GroupCommitOptions } from '../../src/webhooks/log/group-commit.ts'
import { FakeClock } from './fake-clock.ts'

/** Thrown for a batch with a bad item. */
export class Refused extends Error {}

type Write = { batch: readonly string[]; end(): void; fail(error: unknown): void }

/** A group commit whose writes end when the test decides; results are the items in upper case. */
export function startGroupCommit(options: Partial<GroupCommitOptions<string, string>> = {}) {
  const clock = new FakeClock()
  const writes: Write[] = []
  const commit = new GroupCommit<string, string>({
    plan: (waiting) => [waiting],
    write: (batch) =>
      new Promise((resolve, reject) => {
        const end = () => resolve(batch.map((item) => item.toUpperCase()))
        writes.push({ batch: [...batch], end, fail: reject })
      }),
    isCulprit: (error) => error instanceof Refused,
    maxInFlight: 1,
    maxWaiting: 100,
    clock,
    ...options,
  })
  return { clock, writes, commit, batches: () => writes.map((write) => write.batch.join('')) }
}
