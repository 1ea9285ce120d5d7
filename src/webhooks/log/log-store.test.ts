import { describeLogStore } from '../../../test/support/log-store-contract.ts'
import { MemoryLogStore } from '../../../test/support/memory-log-store.ts'
import { createClock } from '../../lib/time.ts'

describeLogStore('in memory', async () => {
  const store = new MemoryLogStore(createClock())
  return {
    store,
    loseAnswer: () => {
      store.answersToLose = 1
    },
    breakDown: () => {
      store.isDown = true
      return () => {
        store.isDown = false
      }
    },
    close: async () => undefined,
  }
})
