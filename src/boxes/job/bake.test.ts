/** What a bake does with what the registry and the tool say; against real ones it is tested in test/bake. */

import { beforeEach, describe, expect, it } from 'vitest'
import { orderOf } from '../../../test/support/bake/bake-order.ts'
import { RushingClock } from '../../../test/support/rushing-clock.ts'
import type { OrderedCredential } from '../../apis/bake.ts'
import { SecretText } from '../../lib/redact.ts'
import { StoreError } from '../layout/store.ts'
import type { ProbeResult } from '../registry/outcome.ts'
import { bake } from './bake.ts'
import { machinePlatform, type Platform } from './platform.ts'
import type { BakeDependencies } from './probe.ts'
import { CopyError, type CopyOrder, type CopyOutcome } from './skopeo.ts'

const DIGEST = `sha256:${'ab'.repeat(32)}`
const SECRET = 'the-secret-of-the-bake'
const FOUND: ProbeResult = {
  kind: 'found',
  digest: DIGEST,
  mediaType: 'application/vnd.oci.image.manifest.v1+json',
  bytes: Buffer.from('{}'),
  loggedIn: true,
}
const refused = (status: number, more: object = {}): ProbeResult => ({
  kind: 'refused',
  step: 'manifest',
  status,
  codes: [],
  words: 'no',
  loggedIn: true,
  scheme: 'basic',
  insufficientScope: false,
  ...more,
})
const CREDENTIAL: OrderedCredential = {
  id: 'rc_one',
  type: 'token',
  registry: 'registry.test',
  username: 'bot',
  parameter: { name: '/davit/one', version: 3, region: 'eu-west-1' },
}

let clock: RushingClock
/** What the registry answers, one after another; the last one for ever. */
let answers: ProbeResult[]
let outcomes: CopyOutcome[]
let asked: { repository: string; password: string | undefined; at: number }[]
let copied: CopyOrder[]
let read: number
let stored: string[]
let lines: string[]
let parts: BakeDependencies
/** What the config of each image says; none for an artifact. */
let platform: Platform | undefined

const next = <T>(list: T[]): T => {
  const [first, ...rest] = list
  if (rest.length > 0) list.shift()
  return first as T
}

beforeEach(() => {
  clock = new RushingClock()
  answers = [FOUND]
  outcomes = [{ ok: true }]
  asked = []
  copied = []
  read = 0
  stored = []
  lines = []
  platform = undefined
  const say = (_event: string, message: string, fields?: object) =>
    void lines.push(message + JSON.stringify(fields ?? {}))
  parts = {
    clock,
    log: { info: say, warn: say, error: say },
    probe: {
      async manifest({ repository }, login) {
        asked.push({ repository, password: login?.password.reveal(), at: clock.monotonic() })
        return next(answers)
      },
    },
    parameters: {
      async read() {
        read += 1
        return new SecretText(SECRET)
      },
    },
    tokens: { token: () => Promise.reject(new Error('none is asked for')) },
    copier: {
      async copy(order, watch) {
        copied.push(order)
        watch.line(`it has got ${SECRET}\u001b[0m`, 'stderr')
        return next(outcomes)
      },
    },
    store: {
      async open() {
        return {
          blobs: '/output/blobs',
          temporary: '/output/temporary',
          folderOf: async (service) => `/output/${service}`,
          size: async () => 0,
          verify: async (service) => {
            stored.push(`verified ${service}`)
            return platform
          },
          reuse: (service, verified) => void stored.push(`reused ${verified} for ${service}`),
          publish: async (services) => void stored.push(`published ${services.length}`),
          discard: async () => void stored.push('discarded'),
        }
      },
    },
  }
})

const service = (name: string, credential: OrderedCredential | undefined = CREDENTIAL) => ({
  name,
  image: `registry.test/acme/${name}:1.0`,
  ...(credential && { credential }),
})
const run = (names: readonly string[] = ['api'], signal = new AbortController().signal) =>
  clock.rush(
    bake(
      parts,
      orderOf(
        names.map((name) => service(name)),
        '/output',
      ),
      signal,
    ),
  )

describe('a bake', () => {
  it('pulls by the digest that the registry told, with a login that is read once', async () => {
    const result = await run(['api', 'web'])
    expect(result).toMatchObject({
      state: 'succeeded',
      services: [
        { name: 'api', digest: DIGEST, verified: { ok: true } },
        { name: 'web', digest: DIGEST },
      ],
    })
    expect(copied.map(({ image }) => image)).toEqual([
      `registry.test/acme/api@${DIGEST}`,
      `registry.test/acme/web@${DIGEST}`,
    ])
    expect(read).toBe(1)
    expect(stored).toEqual(['verified api', 'verified web', 'published 2', 'discarded'])
  })

  describe('of several services', () => {
    const OTHER: OrderedCredential = { ...CREDENTIAL, id: 'rc_two' }
    const ANOTHER = `sha256:${'cd'.repeat(32)}`
    type Image = readonly [image: string, credential?: OrderedCredential | null]
    const images = (given: readonly Image[]) =>
      given.map(([image, credential = CREDENTIAL], n) => ({
        name: `s-${n}`,
        image: `registry.test/${image}`,
        ...(credential && { credential }),
      }))
    const bakeAll = (given: readonly Image[]) =>
      clock.rush(bake(parts, orderOf(images(given), '/output'), new AbortController().signal))

    it.each([
      ['of one image', [['a/x:1'], ['a/x:1'], ['a/x:1']], 1, 1],
      [
        'of one public image',
        [
          ['a/x:1', null],
          ['a/x:1', null],
        ],
        1,
        1,
      ],
      ['of one image by its digest', [[`a/x@${DIGEST}`], [`a/x:1@${DIGEST}`], [`a/x@${DIGEST}`]], 1, 1],
      ['without a tag and with the same', [['a/x'], ['a/x:latest']], 1, 1],
      ['of two tags that are the same image', [['a/x:1'], ['a/x:stable'], ['a/x:1']], 2, 1],
      ['of two repositories', [['a/x:1'], ['b/x:1']], 2, 2],
      ['of one image with two credentials', [['a/x:1'], ['a/x:1', OTHER], ['a/x:1', null]], 3, 3],
    ] as const)(
      '%s asks and pulls no more often than there is something new',
      async (_, given, asks, pulls) => {
        const result = await bakeAll(given)
        expect(result.state).toBe('succeeded')
        expect(result.services.map(({ digest }) => digest)).toEqual(given.map(() => DIGEST))
        expect(result.services.map(({ verified }) => verified?.ok)).toEqual(
          given.map(([, credential]) => (credential === null ? undefined : true)),
        )
        expect([asked.length, copied.length]).toEqual([asks, pulls])
        expect(stored.at(-2)).toBe(`published ${given.length}`)
      },
    )

    it('pulls two images of one repository', async () => {
      answers = [FOUND, { ...FOUND, digest: ANOTHER }]
      const { services } = await bakeAll([['a/x:1'], ['a/x:2']])
      expect(services.map(({ digest }) => digest)).toEqual([DIGEST, ANOTHER])
      expect(copied.length).toBe(2)
    })

    it('uses what the tool has got for all services of an image that the registry refused to us at first', async () => {
      answers = [refused(404), FOUND]
      const { state, services } = await bakeAll([['a/x:1'], ['a/x:1']])
      expect([state, asked.length, copied.length]).toEqual(['succeeded', 2, 2])
      expect(services).toMatchObject([
        { digest: DIGEST, verified: { ok: true } },
        { digest: DIGEST, verified: { ok: true } },
      ])
    })

    it('of one image that is refused fails after one probe and one pull', async () => {
      answers = [refused(404)]
      outcomes = [{ ok: false, exit: 1, stderr: 'manifest unknown' }]
      const result = await bakeAll([['a/x:1'], ['a/x:1'], ['a/x:1']])
      expect([result.failure?.code, asked.length, copied.length]).toEqual(['not_found_or_private', 1, 1])
      expect(result.services.map(({ verified }) => verified?.ok)).toEqual([false, false, false])
    })
  })

  it('has words where a registry that limits requests refuses what the tool has got', async () => {
    answers = [refused(404), refused(429, { words: '' })]
    expect((await run()).failure).toMatchObject({
      code: 'rate_limited',
      message: 'The registry responded with HTTP status 429.',
    })
  })

  it('shows a secret nowhere, also where the tool does', async () => {
    outcomes = [{ ok: false, exit: 1, stderr: `fatal: ${Buffer.from(`bot:${SECRET}`).toString('base64')}` }]
    const { failure } = await run()
    expect(failure?.message).toContain('[secret]')
    expect(lines.join('\n')).toContain('it has got [secret]')
    expect(lines.join('\n')).not.toMatch(new RegExp(`${SECRET}|\u001b`))
  })

  it('writes a line of the tool into the log however long it is', async () => {
    parts.copier.copy = async (_order, watch) => {
      watch.line(`begin ${'x'.repeat(9000)} end`, 'stderr')
      return { ok: true }
    }
    await run()
    const said = lines.filter((line) => line.includes('"stream":"stderr"'))
    expect(said.length).toBe(5)
    expect(Math.max(...said.map(({ length }) => length))).toBeLessThan(4096)
    expect(said.at(-1)).toContain(' end')
  })

  it('shows a login that was refused to the registry no second time for another service', async () => {
    answers = [refused(401)]
    outcomes = [{ ok: false, exit: 1, stderr: 'unauthorized' }]
    expect(await run(['api', 'web', 'db'])).toMatchObject({
      state: 'failed',
      failure: { service: 'api', step: 'login', code: 'wrong_credentials', message: 'unauthorized' },
    })
    expect(asked.map(({ repository }) => repository)).toEqual(['acme/api'])
    expect(copied.length).toBe(1)
  })

  it('pulls nothing where one image is known to fail, and fails with the words of the tool', async () => {
    answers = [FOUND, refused(404)]
    outcomes = [{ ok: false, exit: 1, stderr: 'manifest unknown' }]
    const result = await run(['api', 'web'])
    expect(result).toMatchObject({ failure: { service: 'web', code: 'not_found_or_private' } })
    expect(result.services.map(({ verified }) => verified?.ok)).toEqual([true, false])
    expect(copied.map(({ image }) => image)).toEqual(['registry.test/acme/web:1.0'])
    expect(stored).toEqual(['discarded'])
  })

  it('waits for a registry that has enough as long as that says, and no longer than half a minute', async () => {
    answers = [refused(429, { retryAfter: 4 }), FOUND]
    expect((await run()).state).toBe('succeeded')
    expect(asked.map(({ at }) => at)).toEqual([0, 4000])
    asked = []
    answers = [refused(429, { retryAfter: 3600 })]
    outcomes = [{ ok: false, exit: 1, stderr: 'toomanyrequests' }]
    expect((await run()).failure?.code).toBe('rate_limited')
    expect(asked.length).toBe(1)
  })

  it('pulls once more, by the digest that it then records, where the registry said no to us and yes to the tool', async () => {
    answers = [refused(404), FOUND]
    expect(await run()).toMatchObject({
      state: 'succeeded',
      services: [{ digest: DIGEST, verified: { ok: true } }],
    })
    expect(asked.length).toBe(2)
    expect(copied.map(({ image }) => image)).toEqual([
      'registry.test/acme/api:1.0',
      `registry.test/acme/api@${DIGEST}`,
    ])
    expect(stored).toEqual(['verified api', 'verified api', 'published 1', 'discarded'])
  })

  it('records no digest that it has not pulled', async () => {
    answers = [refused(404), FOUND]
    outcomes = [{ ok: true }, { ok: false, exit: 1, stderr: 'manifest unknown' }]
    expect((await run()).failure).toMatchObject({ code: 'not_found_or_private', message: 'manifest unknown' })
    expect(stored).toEqual(['verified api', 'discarded'])
  })

  it('fails where the registry goes on saying no, whatever the tool has got', async () => {
    answers = [refused(404), refused(403, { words: `not for you, ${SECRET}` })]
    expect((await run()).failure).toMatchObject({
      code: 'no_pull_permission',
      message: 'not for you, [secret]',
    })
  })

  it('does not give its login to a tool that would go where none goes', async () => {
    answers = [{ kind: 'realm-refused', realm: 'https://other.test/token', reason: 'is on other.test' }]
    expect((await run()).failure).toEqual({
      service: 'api',
      step: 'login',
      code: 'host_not_allowed',
      message:
        'Davit does not use the token endpoint https://other.test/token of registry.test because that URL is on other.test.',
    })
    expect(copied).toEqual([])
  })

  it('begins a pull that broke off three times, with more patience each time', async () => {
    outcomes = [{ ok: false, exit: 1, stderr: 'reading blob: unexpected EOF' }]
    const begun = clock.monotonic()
    expect((await run()).failure).toMatchObject({ code: 'unreachable', step: 'pull' })
    expect(copied.length).toBe(3)
    expect(clock.monotonic() - begun).toBeGreaterThanOrEqual(6000)
  })

  it.each([
    ['that has no room', new StoreError('no-space', 'ENOSPC'), { step: 'store', code: 'out_of_disk' }],
    ['that is damaged', new StoreError('damaged', 'a blob'), { step: 'store', code: 'tool_failed' }],
  ])('leaves nothing in a store %s', async (_name, error, want) => {
    const { open } = parts.store
    parts.store.open = async () => ({ ...(await open()), verify: () => Promise.reject(error) })
    expect((await run()).failure).toMatchObject({ ...want, message: error.message })
    expect(stored).toEqual(['discarded'])
  })

  it.each([
    ['failed', 'wrong_credentials', refused(401)],
    ['succeeded', undefined, FOUND],
  ])(
    'that has %s is not told otherwise because something of it could not be removed',
    async (state, code, answer) => {
      answers = [answer]
      outcomes = [{ ok: state === 'succeeded', exit: 1, stderr: 'unauthorized' } as CopyOutcome]
      const { open } = parts.store
      parts.store.open = async () => ({ ...(await open()), discard: () => Promise.reject(new Error('EIO')) })
      const result = await run()
      expect([result.state, result.failure?.code]).toEqual([state, code])
      expect(lines.join('\n')).toContain('failed to remove the files of the bake')
    },
  )

  it('without the tool says so', async () => {
    parts.copier.copy = () => Promise.reject(new CopyError('failed to run the tool: spawn skopeo ENOENT'))
    expect((await run()).failure).toMatchObject({
      step: 'pull',
      code: 'tool_failed',
      message: 'failed to run the tool: spawn skopeo ENOENT',
    })
  })

  it.each([
    ['canceled', 'canceled'],
    ['timed_out', 'timed_out'],
  ])('that is %s ends, and leaves nothing', async (reason, code) => {
    const ending = new AbortController()
    parts.copier.copy = async () => {
      ending.abort(reason)
      ending.signal.throwIfAborted()
      return { ok: true }
    }
    expect((await run(['api'], ending.signal)).failure?.code).toBe(code)
    expect(stored).toEqual(['discarded'])
  })
})

describe('an image', () => {
  const on = (platform: string | undefined) =>
    clock.rush(bake(parts, orderOf([service('api')], '/output', { platform }), new AbortController().signal))
  const linux = (architecture: string, variant?: string): Platform => ({ os: 'linux', architecture, variant })

  it.each([
    ['linux/arm64', linux('amd64'), 'linux/amd64'],
    ['linux/amd64', linux('arm64', 'v8'), 'linux/arm64/v8'],
    ['linux/amd64', { os: 'windows', architecture: 'amd64' }, 'windows/amd64'],
    ['linux/arm/v6', linux('arm', 'v7'), 'linux/arm/v7'],
  ])('of one platform fails in a box for %s, which names both', async (box, image, named) => {
    platform = image
    expect(await on(box)).toMatchObject({
      state: 'failed',
      failure: {
        service: 'api',
        step: 'pull',
        code: 'platform_missing',
        message: `registry.test/acme/api:1.0 is an image for ${named}, but the platform of the box is ${box}.`,
      },
    })
    expect(stored).toEqual(['verified api', 'discarded'])
  })

  it('of another platform than the node fails where the template names none', async () => {
    platform = linux('arm64')
    parts.machine = machinePlatform('x64')
    expect((await on(undefined)).failure).toMatchObject({
      code: 'platform_missing',
      message:
        'registry.test/acme/api:1.0 is an image for linux/arm64, but spec.platform is not set, and the node that runs the bake is linux/amd64.',
    })
    parts.machine = machinePlatform('arm64')
    expect((await on(undefined)).state).toBe('succeeded')
  })

  it.each([undefined, linux('amd64'), linux('x86_64')])(
    'of the platform is baked, as is an artifact',
    async (image) => {
      platform = image
      expect((await on('linux/amd64')).state).toBe('succeeded')
    },
  )
})
