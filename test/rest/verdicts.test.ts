/** Who is admitted by a REST server whose API server answers late, wrongly or not at all, and for how long a verdict is valid. */

import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { requestApi } from '../../playground/control-plane/api-server.ts'
import type { FrontAnswer, FrontRequest } from '../support/api-front.ts'
import {
  type FrontedServer,
  HOOKS,
  ORGANIZATION,
  OWNER,
  startFrontedServer,
} from '../support/fronted-server.ts'
import { ask } from '../support/server-bed.ts'
import { untilLetIn } from '../support/server-tour.ts'

const POLL_MS = 50
/** What a busy machine, and the API server's own way to know of a change, may add. */
const SLACK_MS = 2500

let bed: FrontedServer

beforeAll(async () => {
  bed = await startFrontedServer()
}, 240_000)

afterAll(() => bed?.stop())

const of = (plural: string) => (request: FrontRequest) => request.path.endsWith(`/${plural}`)

type Seen = { status: number; code: unknown; at: number }

/** What a key is answered until it is `last`, each answer that differs from the one before once, with when it came first. */
async function answersUntil(last: number, key: string): Promise<Seen[]> {
  const seen: Seen[] = []
  const deadline = performance.now() + 40_000
  for (;;) {
    const { status, json } = await bed.list(key)
    if (seen.at(-1)?.status !== status) seen.push({ status, code: json.code, at: performance.now() })
    if (status === last) return seen
    if (performance.now() > deadline) throw new Error(`no ${last}: ${JSON.stringify(seen)}`)
    await sleep(POLL_MS)
  }
}

const json = (status: number, body: object): FrontAnswer => ({
  status,
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
})
const failure = (code: number, reason: string) =>
  json(code, {
    kind: 'Status',
    apiVersion: 'v1',
    status: 'Failure',
    code,
    reason,
    message: 'words-of-inside',
  })

const NO_ANSWERS: { what: string; answer: FrontAnswer }[] = [
  { what: 'says nothing', answer: 'hang' },
  { what: 'fails', answer: failure(500, 'InternalError') },
  { what: 'does not know the rights of Davit yet', answer: failure(403, 'Forbidden') },
  { what: 'answers with something else', answer: json(201, { kind: 'Other', status: 'fine' }) },
]

describe.each(['tokenreviews', 'subjectaccessreviews'])('an API server that to %s', (plural) => {
  test.each(NO_ANSWERS)('$what lets nobody in, and the next request asks again', async ({ answer }) => {
    // It is still unknown.
    const key = await bed.davit.makeKey(OWNER)
    const end = bed.front.answer(of(plural), answer, Number.POSITIVE_INFINITY)
    const refused = await bed.list(key)
    expect([refused.status, refused.json.code]).toEqual([503, 'unavailable'])
    expect(refused.headers.get('retry-after')).toMatch(/^[1-9]\d*$/)
    expect(refused.text).not.toContain('words-of-inside')
    end()
    expect((await bed.list(key)).status).toBe(200)
  })
})

const REFUSED = json(201, {
  apiVersion: 'authentication.k8s.io/v1',
  kind: 'TokenReview',
  spec: {},
  status: { authenticated: false, error: 'no such token' },
})

describe('a key that the API server refuses after it has accepted it', () => {
  test('is to be tried again for ten seconds, and then is none', async () => {
    const key = await bed.davit.makeKey(OWNER)
    expect((await bed.list(key)).status).toBe(200)
    const end = bed.front.answer(of('tokenreviews'), REFUSED, Number.POSITIVE_INFINITY)
    const answers = await answersUntil(401, key)
    const stranger = await bed.list(await bed.davit.makeKey(OWNER))
    end()
    expect(answers.map(({ status, code }) => [status, code])).toEqual([
      [200, undefined],
      [503, 'unavailable'],
      [401, 'unauthenticated'],
    ])
    const [, doubted, refused] = answers
    expect((refused?.at ?? 0) - (doubted?.at ?? 0)).toBeGreaterThan(9500)
    expect((refused?.at ?? 0) - (doubted?.at ?? 0)).toBeLessThan(10_000 + SLACK_MS)
    // Of one that was never valid there is nothing to doubt.
    expect(stranger.status).toBe(401)
  })

  test('is let in again as soon as the API server accepts it', async () => {
    const key = await bed.davit.makeKey(OWNER)
    expect((await bed.list(key)).status).toBe(200)
    const end = bed.front.answer(of('tokenreviews'), REFUSED, Number.POSITIVE_INFINITY)
    await answersUntil(503, key)
    end()
    const ended = performance.now()
    const [, accepted] = await answersUntil(200, key)
    expect((accepted?.at ?? 0) - ended).toBeLessThan(1000 + SLACK_MS)
  })
})

test('a right that was taken away ends within five seconds, and one that is given is there within two', async () => {
  const { access } = bed.davit.controlPlane
  const bindings = `/apis/rbac.authorization.k8s.io/v1/namespaces/${ORGANIZATION}/rolebindings`
  expect((await bed.list()).status).toBe(200)
  const { status } = await requestApi(access, { method: 'DELETE', path: `${bindings}/${OWNER.name}` })
  expect(status).toBe(200)
  const taken = performance.now()
  const answers = await answersUntil(404, bed.key)
  expect(answers.map(({ status }) => status)).toEqual([200, 503, 404])
  const [, doubted, gone] = answers
  expect((doubted?.at ?? 0) - taken).toBeLessThan(5000 + SLACK_MS)
  expect((gone?.at ?? 0) - (doubted?.at ?? 0)).toBeGreaterThan(2500)
  expect((gone?.at ?? 0) - (doubted?.at ?? 0)).toBeLessThan(3000 + SLACK_MS)
  // Whatever it asks for: nothing of the organization is to be seen any more.
  expect((await ask(bed.server, `${HOOKS}/event-types`, { key: bed.key })).status).toBe(404)
  await bed.davit.bindRole(ORGANIZATION, OWNER, 'davit-owner')
  const given = performance.now()
  await untilLetIn({ server: bed.server, organization: ORGANIZATION, owner: bed.key })
  expect(performance.now() - given).toBeLessThan(2000 + SLACK_MS)
})

test('an API server that refuses a right for a moment, as one that has just started, does not make an organization vanish', async () => {
  expect((await bed.list()).status).toBe(200)
  const refused = json(201, {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SubjectAccessReview',
    spec: {},
    status: { allowed: false },
  })
  const end = bed.front.answer(of('subjectaccessreviews'), refused, Number.POSITIVE_INFINITY)
  const doubted = await answersUntil(503, bed.key)
  end()
  expect(doubted.at(-1)?.code).toBe('unavailable')
  const answers = await answersUntil(200, bed.key)
  expect(answers.map(({ status }) => status)).toEqual([503, 200])
})
