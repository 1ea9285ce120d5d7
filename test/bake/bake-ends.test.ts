import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest'
import { type BakeBed, orderOf, startBakeBed } from '../support/bake/bake-bed.ts'
import { BakePod } from '../support/bake/bake-process.ts'
import { makeImage } from '../support/registry/images.ts'
import { startTestRegistry, type TestRegistry } from '../support/registry/test-registry.ts'
import { until } from '../support/until.ts'

let bed: BakeBed
let registry: TestRegistry
let pod: BakePod

beforeAll(async () => {
  bed = await startBakeBed()
  registry = await startTestRegistry({ auth: 'none' })
  await registry.push('acme/large', '1.0', makeImage({ layers: ['base', 4_000_000] }))
}, 120_000)
afterAll(async () => {
  await registry?.stop()
  await bed?.stop()
})
beforeEach(() => {
  pod = new BakePod()
  registry.front.bytesPerSecond = 200_000
  registry.front.requests.length = 0
})
afterEach(() => pod.remove())

const start = (more = {}) =>
  pod.start(
    orderOf([{ name: 'api', image: `${registry.host}/acme/large:1.0` }], pod.output, more),
    bed.environment(registry.ca),
  )

/** In the midst of a layer. */
const untilPulling = () =>
  until(
    async () => (registry.front.requests.some(({ path }) => path.includes('/blobs/')) ? true : undefined),
    () => 'it does not pull',
  )
const left = () => readdirSync(join(pod.output, '.davit/shop'))

it('a bake that is told to end ends at once, says so, and leaves nothing', async () => {
  const bake = start()
  await untilPulling()
  bake.terminate()
  const { code, result } = await bake.ended
  expect({ code, result }).toMatchObject({
    code: 1,
    result: { state: 'failed', failure: { code: 'canceled' } },
  })
  expect([left(), readdirSync(pod.memory)]).toEqual([[], []])
})

it('a bake that takes too long ends itself, and says so', async () => {
  const { code, result } = await start({ deadlineSeconds: 4 }).ended
  expect({ code, result }).toMatchObject({
    code: 1,
    result: { state: 'failed', failure: { code: 'timed_out' } },
  })
  expect(left()).toEqual([])
})

it('a bake that was killed leaves nothing that counts, and the next one removes the rest', async () => {
  const bake = start({ bake: 'killed' })
  await untilPulling()
  bake.kill()
  const { code, result } = await bake.ended
  expect({ code, result }).toEqual({ code: null, result: undefined })
  expect(existsSync(join(pod.output, 'shop'))).toBe(false)
  expect(left()).toEqual(['killed'])
  registry.front.bytesPerSecond = undefined
  expect((await start({ bake: 'next' }).ended).result?.state).toBe('succeeded')
  expect(left()).toEqual(['next'])
})
