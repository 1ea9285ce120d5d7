/** Registry credentials over REST while AWS fails, while a REST server dies, and when a request is repeated. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { registryCredentials } from '../../src/apis/registry-credential.ts'
import { ApiError } from '../../src/kube/client.ts'
import type { Account, Role } from '../../test-support/aws/account.ts'
import { REGION } from '../support/aws/organization-account.ts'
import { type ApiCall, calling } from '../support/faulty-api.ts'
import { answered } from '../support/rest-client.ts'
import { ACCOUNT, RestSecrets } from '../support/rest-secrets.ts'
import { until } from '../support/until.ts'

let bed: RestSecrets
let account: Account
let role: Role

beforeAll(async () => {
  bed = await RestSecrets.start('rest-credential-faults')
  ;({ account, role } = await bed.connect())
})
afterAll(async () => {
  await bed?.stop()
})
afterEach(() => {
  bed.aws.emulator.script.clear()
  expect(bed.aws.emulator.defects).toEqual([])
})

const parameters = () => account.parameters(REGION)
const nameOf = (id: string) => `/davit/${bed.orgId}/${id}`
const puts = () => bed.aws.emulator.trail.entries({ operation: 'PutParameter', account: ACCOUNT })

async function made(): Promise<string> {
  return answered(await bed.create()).id
}

test.each([
  { effect: 'throttle', want: [201], puts: 2 },
  { effect: 'unavailable', want: [201], puts: 2 },
  { effect: 'cut-before', want: [201], puts: 2 },
  // The unanswered one counts.
  { effect: 'cut-after', want: [201], puts: 2 },
  {
    effect: { code: 'AccessDeniedException', status: 400 },
    want: [409, 'cloud_account_not_ready'],
    puts: 1,
  },
  {
    effect: { code: 'ParameterLimitExceeded', status: 400 },
    want: [409, 'cloud_account_not_ready'],
    puts: 1,
  },
] as const)(
  'where AWS says $effect once, the answer is $want, and nothing is left over',
  async ({ effect, want, puts: calls }) => {
    const before = {
      puts: puts().length,
      held: parameters().list().length,
      stored: (await bed.allStored()).length,
    }
    bed.aws.emulator.script.add({ operation: 'ssm:PutParameter', effect })
    const { error, response } = await bed.create()
    expect(error ? [response.status, error.code] : [response.status]).toEqual(want)
    if (typeof effect === 'object') expect(error?.detail).toContain(effect.code)
    const more = response.status === 201 ? 1 : 0
    expect({
      puts: puts().length,
      held: parameters().list().length,
      stored: (await bed.allStored()).length,
    }).toEqual({ puts: before.puts + calls, held: before.held + more, stored: before.stored + more })
  },
)

test.each(['throttle', 'unavailable'] as const)(
  'where AWS goes on with %s, the client is told to come again, and nothing is left over',
  async (effect) => {
    const before = parameters().list().length
    bed.aws.emulator.script.add({ operation: 'ssm:PutParameter', effect, times: Number.POSITIVE_INFINITY })
    const { error, response } = await bed.create()
    expect([response.status, error?.code]).toEqual([503, 'cloud_unavailable'])
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(parameters().list().length).toBe(before)
  },
)

test('where nobody knows whether it is there, what may be left over is ours to sweep', async () => {
  const { script } = bed.aws.emulator
  script.add({ operation: 'ssm:PutParameter', effect: 'cut-after' })
  script.add({
    operation: 'ssm:ListTagsForResource',
    effect: 'unavailable',
    times: Number.POSITIVE_INFINITY,
  })
  const names = () =>
    parameters()
      .list()
      .map(({ name }) => name)
  const before = { parameters: new Set(names()), stored: (await bed.allStored()).length }
  const { error } = await bed.create()
  expect([error?.code, (await bed.allStored()).length]).toEqual(['cloud_unavailable', before.stored])
  const left = parameters()
    .list()
    .filter(({ name }) => !before.parameters.has(name))
  expect(left.map(({ tags }) => tags.get('davit.dev/organization'))).toEqual([bed.orgId])
  expect(left[0]?.tags.has('davit.dev/installation')).toBe(true)
})

test('a role that trusts nobody is told with the words of AWS', async () => {
  const { trust } = role
  account.changeRole(role, { trust: { Version: '2012-10-17', Statement: [] } })
  // An existing session continues; another process has none.
  const fresh = await bed.newServer()
  const { error, response } = await fresh.create()
  role.trust = trust
  await fresh.stop()
  expect([response.status, error?.code]).toEqual([409, 'cloud_account_not_ready'])
  expect(error?.detail).toContain('AccessDenied (sts:AssumeRole)')
})

test('a version whose user name was not written is not used, and one whose status was not written is', async () => {
  const [apart, alone] = [await made(), await made()]
  const { api } = bed.servers[0].server
  const isPatch = ({ verb, plural }: ApiCall) => verb === 'patch' && plural === registryCredentials.plural
  const away = { before: new ApiError('Unavailable', 'no answer') }
  const seen: ApiCall[] = []
  // The first is the one that only tries.
  const isFields = (call: ApiCall) => isPatch(call) && 'spec' in (call.body ?? {}) && seen.push(call) > 1
  const ends = [
    api.fail(isFields, away, Number.POSITIVE_INFINITY),
    api.fail((call) => isPatch(call) && 'status' in (call.body ?? {}), away, Number.POSITIVE_INFINITY),
  ]
  const { error: both } = await bed.change(apart, { secret: 'the next one', username: 'next' })
  const { error: one } = await bed.change(alone, { secret: 'the next one' })
  for (const end of ends) end()
  expect([both?.code, one?.code]).toEqual(['unavailable', 'not_acknowledged'])
  expect([apart, alone].map((id) => parameters().get(nameOf(id))?.versions.length)).toEqual([2, 2])
  // The account is listed again.
  bed.davit.clock.jump(1_000_000)
  const isListed = async () => {
    const [first, second] = [await bed.stored(apart), await bed.stored(alone)]
    const drifted = first.status?.conditions?.find(({ type }) => type === 'Drifted')
    return (second.status?.parameter?.version === 2 && drifted?.reason === 'InSync') || undefined
  }
  await until(isListed, () => 'the version is not adopted')
  const { spec, status } = await bed.stored(apart)
  expect([spec.username, status?.parameter?.version]).toEqual(['bot', 1])
  answered(await bed.change(apart, { secret: 'the next one', username: 'next' }))
  const after = await bed.stored(apart)
  expect([after.spec.username, after.status?.parameter?.version, after.metadata.annotations]).toEqual([
    'next',
    3,
    undefined,
  ])
})

describe('under an Idempotency-Key', () => {
  test('eight requests to two REST servers create one credential, with one version', async () => {
    const before = parameters().list().length
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, at) => bed.create({}, { at: at % 2 ? 1 : 0, idempotencyKey: 'order-1' })),
    )
    const ids = new Set(answers.map((answer) => answered(answer).id))
    const [id = ''] = ids
    expect([ids.size, parameters().list().length]).toEqual([1, before + 1])
    expect(parameters().get(nameOf(id))?.versions.length).toBe(1)
    expect(
      answers.filter(({ response }) => response.headers.get('idempotency-replayed') !== 'true'),
    ).toHaveLength(1)
  })

  test('a repeated change writes no new version, whatever secret it comes with', async () => {
    const id = await made()
    const how = { idempotencyKey: 'rotate-1' }
    const first = answered(await bed.change(id, { secret: 'the next one' }, how))
    const again = await bed.change(id, { secret: 'yet another' }, { ...how, at: 1 })
    expect([answered(again), again.response.headers.get('idempotency-replayed')]).toEqual([first, 'true'])
    expect(parameters().get(nameOf(id))?.versions.length).toBe(2)
    const { error } = await bed.change(id, { secret: 'the next one', label: 'Other' }, how)
    expect(error?.code).toBe('idempotency_conflict')
  })

  test.each([
    { step: 'create', where: 'dies before' },
    { step: 'create', where: 'dies after' },
    { step: 'patch', where: 'dies before' },
  ] as const)(
    'a REST server that $where its $step in the cluster is taken over by the other',
    async ({ step, where }) => {
      const doomed = await bed.newServer()
      doomed.server.api.fail(calling(step, registryCredentials), where)
      const idempotencyKey = `over-${step}-${where.replace(' ', '-')}`
      void doomed.create(idempotencyKey).catch(() => undefined)
      await doomed.server.api.died
      bed.davit.clock.jump(16_000)
      const { id } = answered(await bed.create({}, { at: 1, idempotencyKey }))
      expect(parameters().get(nameOf(id))?.versions.length).toBe(1)
      expect((await bed.stored(id)).spec.label).toBe('GitHub')
      doomed.server.kill()
    },
  )
})
