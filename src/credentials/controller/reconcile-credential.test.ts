import { describe, expect, test } from 'vitest'
import { calling } from '../../../test/support/faulty-api.ts'
import { createByRest } from '../../../test/support/secrets/scenarios.ts'
import { REGION, SecretsWorld, TENANT_TYPES } from '../../../test/support/secrets/secrets-world.ts'
import { configMaps, secrets } from '../../apis/core-kinds.ts'
import { registryCredentials } from '../../apis/registry-credential.ts'
import { ApiError } from '../../kube/client.ts'

const ACCOUNT = '111111111111'
const OTHER = '222222222222'
const MINUTE = 60_000
const NAME = '/davit/acme/rc_ghcr'

async function connected(): Promise<SecretsWorld> {
  const world = await SecretsWorld.start({ organizations: ['acme'] })
  await world.connect('acme', ACCOUNT)
  await world.elapse(5000)
  world.dies(undefined)
  return world
}

async function stored(retain = false): Promise<SecretsWorld> {
  const world = await connected()
  await world.handOver('acme', 'handover', 'v-1', retain)
  await world.credential('acme', 'ghcr', { secretRef: { name: 'handover' } })
  await world.elapse(5000)
  return world
}

const statusOf = (world: SecretsWorld) => world.credentialOf('acme', 'ghcr')?.status
const readyOf = (world: SecretsWorld) => statusOf(world)?.conditions?.find(({ type }) => type === 'Ready')
const valuesIn = (world: SecretsWorld, account = ACCOUNT) =>
  world.cloud
    .store(account, REGION)
    .get(NAME)
    ?.versions.map(({ value }) => value)
const remove = (world: SecretsWorld) => world.remove(registryCredentials, 'acme', 'ghcr')
const errorsOf = (world: SecretsWorld) => world.logLines.filter(({ level }) => level === 'error')
/** A turn that never comes. */
const never = () => new Promise<void>(() => undefined)

describe('a credential', () => {
  test('is stored and pinned, and nothing is written while nothing happens', async () => {
    const world = await stored()
    expect([statusOf(world)?.parameter?.version, readyOf(world)?.status]).toEqual([1, 'True'])
    expect(world.cluster.all(secrets)).toEqual([])
    // Whether it has drifted is known from the first listing on.
    await world.elapse(17 * MINUTE)
    const { writes } = world.process.api
    await world.elapse(35 * MINUTE)
    expect(world.process.api.writes).toBe(writes)
  })

  test('that is deleted when somebody has removed its parameter before says so', async () => {
    const world = await stored()
    await world.elapse(10_000)
    world.cloud.store(ACCOUNT, REGION).delete(NAME)
    await remove(world)
    await world.elapse(5000)
    expect(world.credentialOf('acme', 'ghcr')).toBeUndefined()
    expect(world.events.at(-1)).toMatchObject({
      reason: 'ParameterRemoved',
      message: `The parameter ${NAME} had already been deleted.`,
    })
  })

  test('takes up what somebody changes while it is being stored', async () => {
    const world = await connected()
    const turn = Promise.withResolvers<void>()
    world.cloud.held.set('ssm:Put', turn.promise)
    await world.handOver('acme', 'handover', 'v-1')
    await world.credential('acme', 'ghcr', { secretRef: { name: 'handover' } })
    await world.elapse(1000)
    await world.handOver('acme', 'handover', 'v-2')
    world.cloud.held.clear()
    turn.resolve()
    await world.elapse(5000)
    expect([valuesIn(world)?.at(-1), statusOf(world)?.parameter?.version]).toEqual([
      'v-2',
      valuesIn(world)?.length,
    ])
    expect(world.cluster.all(secrets)).toEqual([])
  })

  test('is read again after a conflict, and that is no error', async () => {
    const world = await connected()
    const conflict = new ApiError('Conflict', 'changed', { status: 409 })
    world.faults.fail(calling('patch', registryCredentials), { before: conflict }, 2)
    await world.handOver('acme', 'handover', 'v-1')
    await world.credential('acme', 'ghcr', { secretRef: { name: 'handover' } })
    await world.elapse(1000)
    expect([readyOf(world)?.status, errorsOf(world)]).toEqual(['True', []])
  })

  test('whose secret is stored lets go of the hand-over Secret though the account fails by then', async () => {
    const world = await connected()
    const deletions = world.faults.fail(
      calling('delete', secrets),
      { before: new ApiError('Unavailable', 'away') },
      1e6,
    )
    await world.handOver('acme', 'handover', 'v-1')
    await world.credential('acme', 'ghcr', { secretRef: { name: 'handover' } })
    await world.elapse(1000)
    await world.settings('acme', { roleArn: `arn:aws:iam::${OTHER}:role/nobody` })
    await world.elapse(5000)
    expect(world.cluster.all(secrets)).toHaveLength(1)
    deletions()
    await world.elapse(5 * MINUTE)
    expect(world.cluster.all(secrets)).toEqual([])
    expect(valuesIn(world)).toEqual(['v-1'])
  })

  test('made again under its name is another one: nothing of the one before stays', async () => {
    const world = await stored()
    await world.handOver('acme', 'handover', 'v-2')
    await world.elapse(5000)
    await remove(world)
    await world.elapse(1000)
    await world.handOver('acme', 'handover', 'v-3')
    await world.credential('acme', 'ghcr', { secretRef: { name: 'handover' } })
    await world.elapse(5000)
    expect([valuesIn(world), statusOf(world)?.parameter?.version]).toEqual([['v-3'], 1])
  })

  test('of a namespace that is no organization any more is not Ready, keeps its secret, and can be deleted', async () => {
    const world = await stored()
    world.process.organizations.remove({ name: 'acme' })
    await world.elapse(1000)
    expect([readyOf(world)?.reason, valuesIn(world)]).toEqual(['NotAnOrganization', ['v-1']])
    await remove(world)
    await world.elapse(1000)
    expect([world.credentials(), valuesIn(world)]).toEqual([[], undefined])
  })

  test('of an account whose role becomes another one is removed with the new one', async () => {
    const world = await stored()
    await world.settings('acme', { roleArn: world.role('acme', ACCOUNT, 'another') })
    await world.elapse(5000)
    world.cloud.roles.delete(`arn:aws:iam::${ACCOUNT}:role/acme`)
    await world.cluster.terminate('acme', TENANT_TYPES)
    await world.elapse(5000)
    expect([world.credentials(), valuesIn(world), world.failedDeletions()]).toEqual([[], undefined, []])
  })
})

describe('a credential that waits for its turn at the account', () => {
  async function waiting(turn: Promise<void> = never()): Promise<SecretsWorld> {
    const world = await connected()
    world.cloud.held.set('ssm:Put', turn)
    await world.handOver('acme', 'handover', 'v-1', true)
    await world.credential('acme', 'ghcr', { secretRef: { name: 'handover' } })
    await world.elapse(1000)
    return world
  }

  test('can be deleted', async () => {
    const world = await waiting()
    await remove(world)
    await world.elapse(2000)
    expect([world.credentials(), world.failedDeletions()]).toEqual([[], []])
  })

  test('goes along when the account becomes another one', async () => {
    const turn = Promise.withResolvers<void>()
    const world = await waiting(turn.promise)
    await world.connect('acme', OTHER)
    await world.elapse(1000)
    turn.resolve()
    await world.elapse(20_000)
    expect([valuesIn(world, OTHER), valuesIn(world)]).toEqual([['v-1'], undefined])
  })

  test('lets the process end, and nothing is said of that', async () => {
    const world = await waiting()
    await world.process.role.stop()
    expect([readyOf(world), errorsOf(world)]).toEqual([undefined, []])
  })
})

describe('a deletion', () => {
  test.each([
    { mood: 'unreachable', within: 100_000 },
    { mood: 'denied', within: 5000 },
  ] as const)(
    'ends though the account is $mood, and the parameter is on the list',
    async ({ mood, within }) => {
      const world = await stored()
      world.cloud.moods.set(ACCOUNT, mood)
      await remove(world)
      await world.elapse(within)
      expect(world.credentials()).toEqual([])
      expect(world.failedDeletions()).toMatchObject([{ name: NAME, account: ACCOUNT, region: REGION }])
      expect(world.events.filter(({ reason }) => reason === 'ParameterOrphaned').length).toBeGreaterThan(0)
    },
  )

  test('is not held up by a list of orphans that cannot be written', async () => {
    const world = await stored()
    world.cloud.moods.set(ACCOUNT, 'denied')
    world.faults.fail(
      calling('create', configMaps),
      { before: new ApiError('Forbidden', 'no', { status: 403 }) },
      100,
    )
    await remove(world)
    await world.elapse(5000)
    expect(world.credentials()).toEqual([])
    expect(errorsOf(world)).toMatchObject([{ fields: { name: NAME, account: ACCOUNT } }])
  })

  test('waits for the list of orphans while the API server is away', async () => {
    const world = await stored()
    world.cloud.moods.set(ACCOUNT, 'denied')
    world.faults.fail(calling('create', configMaps), { before: new ApiError('Unavailable', 'away') }, 3)
    await remove(world)
    await world.elapse(5000)
    expect([world.credentials(), world.failedDeletions().length]).toEqual([[], 1])
  })
})

describe('a credential that a REST server created and did not record', () => {
  test('is found where its parameter is', async () => {
    const world = await connected()
    const { life } = world.process
    await createByRest(world)
    await world.elapse(5000)
    const [{ metadata } = { metadata: { name: '' } }] = world.credentials()
    await world.cluster.patch(
      registryCredentials,
      { namespace: 'acme', name: metadata.name },
      { status: { parameter: null, conditions: null } },
      { subresource: 'status' },
    )
    await world.elapse(40_000)
    expect(world.credentials()[0]?.status?.parameter?.version).toBe(1)
    expect(life.calls.filter((call) => call === 'ssm:Describe')).toHaveLength(1)
  })
})
