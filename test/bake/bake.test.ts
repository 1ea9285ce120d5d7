import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { makeImage, makeIndex } from '../../playground/bakes/images.ts'
import type { BakeOrder, OrderedCredential } from '../../src/apis/bake.ts'
import { boxCredentials } from '../../src/apis/box-credentials.ts'
import { type BakeBed, startBakeBed } from '../support/bake/bake-bed.ts'
import { orderOf } from '../support/bake/bake-order.ts'
import { BakePod } from '../support/bake/bake-process.ts'
import { leaksIn, leaksInFolder } from '../support/bake/canary.ts'
import { startTestRegistry, type TestRegistry } from '../support/registry/test-registry.ts'

const SECRETS = { api: 'canary-4711-of-the-api+/="%', web: 'canary-0815-öf-the-web' }
const ACCOUNTS = {
  'bot-api': { password: SECRETS.api, pulls: ['acme/api'] },
  'bot-web': { password: SECRETS.web, pulls: ['acme/web'] },
}

let bed: BakeBed
let registry: TestRegistry
let pod: BakePod
let credentials: { api: OrderedCredential; web: OrderedCredential }
let digests: { api: string; web: string; tool: string; docker: string }

beforeAll(async () => {
  bed = await startBakeBed()
  registry = await startTestRegistry({ auth: 'bearer', accounts: ACCOUNTS, open: ['public/tool'] })
  const of = async (name: 'api' | 'web'): Promise<OrderedCredential> => ({
    id: `rc_${name}`,
    uid: `uid-of-${name}`,
    generation: 2,
    type: 'token',
    registry: registry.host,
    username: `bot-${name}`,
    parameter: await bed.store(`rc_${name}`, SECRETS[name]),
  })
  credentials = { api: await of('api'), web: await of('web') }
  const amd = makeImage({ layers: ['base', 'tool'] })
  const arm = makeImage({ layers: ['base', 'tool'], architecture: 'arm64' })
  digests = {
    api: await registry.push('acme/api', '1.0', makeImage({ layers: ['base', 'api'] })),
    web: await registry.push('acme/web', '2.0', makeImage({ layers: ['base', 'web', 200_000] })),
    tool: await registry.push('public/tool', 'latest', makeIndex([amd, arm])),
    docker: await registry.push('acme/api', 'docker', makeImage({ layers: ['base', 'api'], docker: true })),
  }
}, 120_000)
afterAll(async () => {
  await registry?.stop()
  await bed?.stop()
})
beforeEach(() => {
  pod = new BakePod()
  registry.tokens.requests.length = 0
  registry.front.requests.length = 0
})
afterEach(() => pod.remove())

const environment = () => bed.environment(registry.ca)
const api = () => ({ name: 'api', image: `${registry.host}/acme/api:1.0`, credential: credentials.api })
const web = () => ({ name: 'web', image: `${registry.host}/acme/web:2.0`, credential: credentials.web })
const tool = () => ({ name: 'tool', image: `${registry.host}/public/tool:latest` })
const run = (order: BakeOrder) => pod.start(order, environment()).ended
const box = (name: string) => JSON.parse(readFileSync(join(pod.output, 'shop', name), 'utf8'))

describe('a bake', () => {
  it('of three services, two of them with credentials of their own for one host, is a box', async () => {
    const { code, result, log } = await run(orderOf([api(), web(), tool()], pod.output))
    expect(log).toContain('verified the digests of all blobs')
    expect({ code, result }).toMatchObject({
      code: 0,
      result: {
        state: 'succeeded',
        services: [
          { name: 'api', digest: digests.api, verified: { ok: true } },
          { name: 'web', digest: digests.web, verified: { ok: true } },
          { name: 'tool', digest: digests.tool },
        ],
      },
    })
    expect(result?.services[2]?.verified).toBeUndefined()
    const users = new Set(registry.tokens.requests.map(({ user, scope }) => `${user} ${scope}`))
    expect(users).toEqual(
      new Set([
        'bot-api repository:acme/api:pull',
        'bot-web repository:acme/web:pull',
        'undefined repository:public/tool:pull',
      ]),
    )
    const pulled = registry.front.requests.flatMap(({ path }) => path.match(/blobs\/(.*)$/)?.[1] ?? [])
    expect(pulled.length).toBe(new Set(pulled).size)
    // Three manifests, three configs, and the base, api, web, the large one and tool.
    expect(readdirSync(join(pod.output, 'shop/blobs/sha256')).length).toBe(11)
    expect(
      box('index.json').manifests.map(({ annotations }: { annotations: unknown }) => annotations),
    ).toEqual([
      expect.objectContaining({
        'org.opencontainers.image.ref.name': 'api',
        'davit.dev/digest': digests.api,
      }),
      expect.objectContaining({
        'org.opencontainers.image.ref.name': 'web',
        'davit.dev/digest': digests.web,
      }),
      expect.objectContaining({
        'org.opencontainers.image.ref.name': 'tool',
        'davit.dev/digest': digests.tool,
      }),
    ])
  })

  it('writes beside the box which credential opens what, without a secret', async () => {
    const orderedAt = '2026-01-31T12:00:00.000Z'
    await run(orderOf([api(), web(), tool()], pod.output, { bake: 'one', orderedAt }))
    expect(boxCredentials.parse(box('credentials.json'))).toEqual({
      orderedAt,
      bakedAt: expect.any(String),
      version: 1,
      template: { namespace: 'acme', name: 'shop' },
      bake: 'one',
      credentials: (['api', 'web'] as const).map((name) => ({
        ...credentials[name],
        repositories: [`acme/${name}`],
      })),
    })
  })

  it('leaves the secret nowhere, and no file with a login', async () => {
    const { log, result } = await run(orderOf([api(), web()], pod.output))
    for (const [name, secret] of Object.entries(SECRETS)) {
      expect(leaksIn(log + JSON.stringify(result), secret, `bot-${name}`)).toEqual([])
      expect(leaksInFolder(pod.folder, secret, `bot-${name}`)).toEqual([])
    }
    expect(readdirSync(pod.memory)).toEqual([])
  })

  it('tells how far it is, in lines that are JSON', async () => {
    const { log } = await run(orderOf([web()], pod.output))
    const lines = log
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
    expect(lines).toContainEqual(
      expect.objectContaining({
        event: 'image_pull_started',
        service: 'web',
        image: expect.stringMatching(/^localhost:/),
      }),
    )
    expect(lines).toContainEqual(
      expect.objectContaining({ tool: 'skopeo', msg: expect.stringContaining('Copying blob') }),
    )
    expect(lines).toContainEqual(
      expect.objectContaining({
        event: 'image_pulled',
        service: 'web',
        msg: expect.stringMatching(/^pulled 2\d\d\.\d kB in /),
        bytes: expect.any(Number),
      }),
    )
  })

  it.each([
    ['one image of one platform', () => [api()], 1],
    ['one image of several platforms', () => [tool()], 2],
    ['three services of one image', () => [api(), { ...api(), name: 'two' }, { ...api(), name: 'three' }], 1],
    [
      'services of one image by its tag and by its digest',
      () => [api(), { ...api(), name: 'two', image: `${registry.host}/acme/api@${digests.api}` }],
      1,
    ],
    ['two services of one image of several platforms', () => [tool(), { ...tool(), name: 'two' }], 2],
    ['two images', () => [api(), web()], 2],
  ] as const)('of %s costs as many pulls as with other clients', async (_, services, pulls) => {
    const { result } = await run(orderOf(services(), pod.output))
    expect(result?.state).toBe('succeeded')
    expect(box('index.json').manifests.length).toBe(services().length)
    const counted = registry.front.requests.filter(
      ({ method, path }) => method === 'GET' && path.includes('/manifests/'),
    )
    expect(counted.length).toBe(pulls)
  })

  it('takes the platform that is asked for out of an index', async () => {
    await run(orderOf([tool()], pod.output, { platform: 'linux/arm64' }))
    const [{ digest }] = box('index.json').manifests
    const manifest = box(`blobs/sha256/${digest.slice(7)}`)
    expect(box(`blobs/sha256/${manifest.config.digest.slice(7)}`).architecture).toBe('arm64')
  })

  it('records the digest that the registry knows, also where the layout has another form', async () => {
    const service = { ...api(), image: `${registry.host}/acme/api:docker` }
    const { result } = await run(orderOf([service], pod.output))
    expect(result?.services[0]?.digest).toBe(digests.docker)
    expect(box('index.json').manifests[0].mediaType).toBe('application/vnd.oci.image.manifest.v1+json')
  })

  it('of a digest is of exactly that', async () => {
    const service = { ...api(), image: `${registry.host}/acme/api@${digests.api}` }
    const { result } = await run(orderOf([service], pod.output))
    expect(result?.services[0]?.digest).toBe(digests.api)
  })

  it('without an output pulls, verifies and drops', async () => {
    const { code, result } = await run(orderOf([api()], undefined))
    expect({ code, state: result?.state }).toEqual({ code: 0, state: 'succeeded' })
    expect(readdirSync(pod.folder).sort()).toEqual(['memory', 'output', 'termination-log'])
    expect(readdirSync(pod.output)).toEqual([])
  })

  it('of which one service fails makes nothing, and tells of the login of the others', async () => {
    await run(orderOf([api()], pod.output, { bake: 'one' }))
    const broken = { ...web(), image: `${registry.host}/acme/web:none` }
    const { code, result } = await run(orderOf([api(), broken], pod.output, { bake: 'two' }))
    expect({ code, result }).toMatchObject({
      code: 1,
      result: {
        state: 'failed',
        failure: { service: 'web', step: 'pull', code: 'not_found_or_private' },
        services: [
          { name: 'api', verified: { ok: true } },
          { name: 'web', verified: { ok: false } },
        ],
      },
    })
    expect(result?.services.map(({ digest }) => digest)).toEqual([undefined, undefined])
    expect(box('credentials.json').bake).toBe('one')
    expect(readdirSync(join(pod.output, '.davit/shop'))).toEqual(['one'])
  })

  it('is made by nobody, who has no right on the machine', async () => {
    const nobody = [
      'unshare',
      '--user',
      '--map-user=65532',
      '--map-group=65532',
      'setpriv',
      '--bounding-set=-all',
      '--no-new-privs',
    ]
    const order = orderOf([api(), tool()], pod.output)
    const { result, log } = await pod.start(order, environment(), nobody).ended
    expect(result?.state, log).toBe('succeeded')
  })

  it('that does not understand its order says so', async () => {
    const order = orderOf([api()], pod.output)
    const { code, log } = await run({ ...order, services: [] })
    expect(code).toBe(2)
    expect(log).toContain('DAVIT_BAKE_ORDER')
    expect(existsSync(join(pod.output, '.davit'))).toBe(false)
  })
})
