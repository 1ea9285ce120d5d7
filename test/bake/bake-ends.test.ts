/** Bakes that are in the midst of a pull: what of them can be seen, and how they end. */

import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest'
import { makeImage } from '../../playground/bakes/images.ts'
import type { BakeOrder } from '../../src/apis/bake.ts'
import { layoutProblems } from '../chaos/bakes/layout-problems.ts'
import { type BakeBed, startBakeBed } from '../support/bake/bake-bed.ts'
import { orderOf } from '../support/bake/bake-order.ts'
import { BakePod } from '../support/bake/bake-process.ts'
import { leaksIn } from '../support/bake/canary.ts'
import { recordFailure } from '../support/bake/expect-failure.ts'
import { openFile, processesOf, type SeenProcess } from '../support/bake/processes.ts'
import { startTestRegistry, type TestRegistry } from '../support/registry/test-registry.ts'
import { until } from '../support/until.ts'

const SECRET = 'canary-of-the-ends'
const USER = 'bot'

let bed: BakeBed
let registry: TestRegistry
let pod: BakePod
let service: BakeOrder['services'][number]

beforeAll(async () => {
  bed = await startBakeBed()
  registry = await startTestRegistry({
    auth: 'basic',
    accounts: { [USER]: { password: SECRET, pulls: ['*'] } },
  })
  await registry.push('acme/large', '1.0', makeImage({ layers: ['base', 4_000_000] }))
  const { host } = registry
  const parameter = await bed.store('rc_large', SECRET)
  const credential = { id: 'rc_large', type: 'token' as const, registry: host, username: USER, parameter }
  service = { name: 'api', image: `${host}/acme/large:1.0`, credential }
})
afterAll(async () => {
  await registry?.stop()
  await bed?.stop()
})
beforeEach(() => {
  pod = new BakePod()
  Object.assign(registry.front, { bytesPerSecond: 200_000, trouble: undefined })
  registry.front.requests.length = 0
})
afterEach(() => pod.remove())

const start = (more: Partial<BakeOrder> = {}) =>
  pod.start(orderOf([service], pod.output, more), bed.environment(registry.ca))

/** In the midst of a layer. */
const untilPulling = () =>
  until(
    async () => (registry.front.requests.some(({ path }) => path.includes('/blobs/')) ? true : undefined),
    () => 'it does not pull',
  )
const left = () => readdirSync(join(pod.output, '.davit/shop'))

it('while an image is pulled, its login is in no arguments and no environment, only in an open file without a name', async () => {
  const bake = start()
  await untilPulling()
  const processes = processesOf(bake.group)
  const tool = processes.find(({ name }) => name === 'skopeo') as SeenProcess
  expect(processes.map(({ name }) => name)).toContain('skopeo')
  for (const { name, arguments: words, environment, core } of processes)
    expect({ name, core, leaks: leaksIn(words + environment, SECRET, USER) }).toEqual({
      name,
      core: '0 0',
      leaks: [],
    })
  expect(tool.environment).not.toMatch(/AWS_|DAVIT_/)
  const login = openFile(tool.pid, 3)
  expect(login).toMatchObject({ mode: '600', names: 0 })
  expect(leaksIn(login.text, SECRET, USER)).toContain('login')
  bake.kill()
  await bake.ended
  expect(processesOf(bake.group)).toEqual([])
})

it('a bake that is told to end ends at once, says so, and leaves nothing', async () => {
  const bake = start()
  await untilPulling()
  bake.terminate()
  const { code, result } = await bake.ended
  expect({ code, result }).toMatchObject({
    code: 1,
    result: { state: 'failed', failure: { code: 'canceled' } },
  })
  recordFailure('a bake that is told to end', result?.failure)
  expect([left(), readdirSync(pod.memory)]).toEqual([[], []])
  expect(processesOf(bake.group)).toEqual([])
})

it('a bake that takes too long ends itself, and says so', async () => {
  const { code, result } = await start({ deadlineSeconds: 4 }).ended
  expect({ code, result }).toMatchObject({
    code: 1,
    result: { state: 'failed', failure: { code: 'timed_out' } },
  })
  recordFailure('a bake that takes too long', result?.failure)
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

it('a box that is in its place is baked, whatever goes wrong afterwards', async () => {
  const bake = start({ bake: 'placed' })
  await untilPulling()
  rmSync(pod.memory, { recursive: true })
  registry.front.bytesPerSecond = undefined
  const { code, result, log } = await bake.ended
  expect(result?.state, log).toBe('succeeded')
  expect(code).toBe(0)
  expect(left()).toEqual(['placed'])
})

it('a pull that broke off is begun again', async () => {
  registry.front.bytesPerSecond = undefined
  let broken = 0
  registry.front.trouble = (request, response) => {
    if (!request.url?.includes('/blobs/') || broken > 0) return false
    broken += 1
    response.writeHead(200, { 'content-length': '4000000' }).write('x'.repeat(1000))
    setTimeout(() => response.destroy(), 50)
    return true
  }
  const { result, log } = await start().ended
  expect(result?.state, log).toBe('succeeded')
  expect(broken).toBe(1)
})

it('a box has what its status says, though its tag was moved while the registry did not answer us', async () => {
  registry.front.bytesPerSecond = undefined
  const moved = await registry.push('acme/large', 'moved', makeImage({ layers: ['base', 'moved'] }))
  let asked = 0
  registry.front.trouble = (request, response) => {
    const isOurs = request.headers['user-agent']?.startsWith('davit/')
    if (!isOurs || !request.url?.endsWith('/manifests/1.0')) return false
    asked += 1
    // The digest, and then the content.
    const isRefused = asked <= 2
    if (isRefused) response.writeHead(404).end()
    else request.url = request.url.replace('1.0', 'moved')
    return isRefused
  }
  const { result, log } = await start().ended
  expect(result, log).toMatchObject({
    state: 'succeeded',
    services: [{ digest: moved, verified: { ok: true } }],
  })
  const { manifests } = JSON.parse(readFileSync(join(pod.output, 'shop/index.json'), 'utf8'))
  expect(manifests.map(({ digest }: { digest: string }) => digest)).toEqual([moved])
  expect(layoutProblems(join(pod.output, 'shop'), ['api'])).toEqual([])
})

it('a layer that is somewhere else is fetched there without the login', async () => {
  const other = await startTestRegistry({ auth: 'none', names: ['127.0.0.1'] })
  try {
    const image = makeImage({ layers: ['elsewhere'] })
    await other.push('acme/large', '1.0', image)
    await registry.push('acme/large', 'elsewhere', image)
    registry.front.trouble = (request, response) => {
      if (!request.url?.includes('/blobs/')) return false
      const location = `https://127.0.0.1:${other.front.port}${request.url}`
      response.writeHead(307, { location }).end()
      return true
    }
    const order = orderOf([{ ...service, image: `${registry.host}/acme/large:elsewhere` }], pod.output)
    const { result, log } = await pod.start(order, bed.environment(`${registry.ca}\n${other.ca}`)).ended
    expect(result?.state, log).toBe('succeeded')
    expect(other.front.requests.length).toBeGreaterThan(0)
    expect(new Set(other.front.requests.map(({ authorization }) => authorization))).toEqual(
      new Set([undefined]),
    )
  } finally {
    await other.stop()
  }
})
