import { expect, it } from 'vitest'
import { FakeClock, fixedRandom } from '../../../test/support/fake-clock.ts'
import { OwnershipEpochs } from '../../ha/ownership.ts'
import { retryUntilDurable } from './context.ts'

const nothing = () => undefined

function bed() {
  const clock = new FakeClock()
  const epochs = new OwnershipEpochs()
  epochs.begin([1])
  const giveUp = new AbortController()
  const ctx = {
    clock,
    random: fixedRandom(),
    log: { info: nothing, warn: nothing, error: nothing },
    giveUp: giveUp.signal,
    shards: { owns: () => true, epochs },
  }
  let tries = 0
  const write = async () => {
    tries += 1
    throw new Error('not taken')
  }
  let end = 'under way'
  const run = () =>
    void epochs.runWithin(1, () =>
      retryUntilDurable(ctx, 'a thing', write).catch((error: Error) => {
        end = error.message
      }),
    )
  return { clock, epochs, giveUp, run, tries: () => tries, end: () => end }
}

it('goes on for as long as the shard is held, however long it was given up', async () => {
  const { clock, run, tries, end } = bed()
  run()
  await clock.elapse(600_000)
  expect(tries()).toBeGreaterThan(100)
  expect(end()).toBe('under way')
})

it('ends when another replica may have had the shard, though this one has it again', async () => {
  const { clock, epochs, run, tries, end } = bed()
  run()
  await clock.elapse(10_000)
  epochs.end([1])
  epochs.begin([1])
  await clock.elapse(10_000)
  expect(end()).toBe('not taken')
  const made = tries()
  await clock.elapse(60_000)
  expect(tries()).toBe(made)
})
