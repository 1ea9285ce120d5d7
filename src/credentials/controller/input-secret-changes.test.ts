/** A secret that is handed over again, in each of the ways that look alike to a watch. */
import { describe, expect, test } from 'vitest'
import { REGION, SecretsWorld } from '../../../test/support/secrets/secrets-world.ts'
import { secrets } from '../../apis/core-kinds.ts'
import { registryCredentials } from '../../apis/registry-credential.ts'

const ACCOUNT = '111111111111'
const SECRET = { namespace: 'acme', name: 'handover' }
/** The longest time until Davit looks for a Secret again. */
const LOOK_MS = 60_000

async function stored(retain: boolean): Promise<SecretsWorld> {
  const world = await SecretsWorld.start({ organizations: ['acme'] })
  await world.connect('acme', ACCOUNT)
  await world.handOver('acme', 'handover', 'v-1', retain)
  await world.credential('acme', 'ghcr', { secretRef: { name: 'handover' } })
  await world.elapse(5000)
  return world
}

const statusOf = (world: SecretsWorld, name = 'ghcr') => world.credentialOf('acme', name)?.status
const conditionOf = (world: SecretsWorld, type: string, name?: string) =>
  statusOf(world, name)?.conditions?.find((condition) => condition.type === type)
const valuesIn = (world: SecretsWorld, name = 'ghcr') =>
  world.cloud
    .store(ACCOUNT, REGION)
    .get(`/davit/acme/rc_${name}`)
    ?.versions.map(({ value }) => value)

describe('a retained Secret', () => {
  test('that only gets other labels is no new version, whoever of Davit looks at it', async () => {
    const world = await stored(true)
    const marks = new Set<string | undefined>()
    for (const color of ['red', 'blue']) {
      marks.add(statusOf(world)?.handover?.mark)
      await world.cluster.patch(secrets, SECRET, { metadata: { labels: { color } } })
      await world.elapse(5000)
      await world.restart()
      await world.elapse(5000)
    }
    expect([valuesIn(world), conditionOf(world, 'Stored')?.status]).toEqual([['v-1'], 'True'])
    expect(marks.size).toBe(2)
    const { metadata } = await world.cluster.get(secrets, SECRET)
    expect(statusOf(world)?.handover?.resourceVersion).toBe(metadata.resourceVersion)
    await world.handOver('acme', 'handover', 'v-2', true)
    await world.elapse(LOOK_MS)
    expect([valuesIn(world), statusOf(world)?.parameter?.version]).toEqual([['v-1', 'v-2'], 2])
  })

  test('leaves a mark that tells nothing of its value, as one does that is deleted', async () => {
    const marks = await Promise.all(
      [true, true, false].map(async (retain) => statusOf(await stored(retain))?.handover?.mark),
    )
    expect(marks[0]).toMatch(/^[0-9a-z]{26}$/)
    expect(marks[1]).toBe(marks[0])
    expect(marks[2]).toBe(marks[0])
  })
})

describe('Stored', () => {
  test('is of the secret that was handed over last; Ready goes on with the one before', async () => {
    const world = await stored(false)
    expect(conditionOf(world, 'Stored')?.status).toBe('True')
    const turn = Promise.withResolvers<void>()
    world.cloud.held.set('ssm:Put', turn.promise)
    await world.handOver('acme', 'handover', 'v-2')
    await world.elapse(LOOK_MS)
    expect(conditionOf(world, 'Stored')).toMatchObject({ status: 'False', reason: 'Storing' })
    expect(conditionOf(world, 'Ready')).toMatchObject({ status: 'True' })
    turn.resolve()
    await world.elapse(5000)
    expect(conditionOf(world, 'Stored')).toMatchObject({ status: 'True' })
    expect(conditionOf(world, 'Stored')?.message).toContain('Version 2 of')
  })

  test('is not True for a new secret that cannot be stored, and says why', async () => {
    const world = await stored(false)
    await world.handOver('acme', 'handover', 'two\nlines')
    await world.elapse(LOOK_MS)
    expect(conditionOf(world, 'Stored')).toMatchObject({ status: 'False', reason: 'InvalidSecret' })
    expect(conditionOf(world, 'Ready')).toMatchObject({ status: 'True' })
  })
})

describe('two credentials that name one Secret', () => {
  test('the older has its value, and the younger says who that is', async () => {
    const world = await stored(false)
    await world.credential('acme', 'younger', { secretRef: { name: 'handover' } })
    await world.elapse(5000)
    expect(conditionOf(world, 'Stalled', 'younger')).toMatchObject({
      status: 'True',
      reason: 'SecretShared',
      message: expect.stringContaining('the older credential ghcr'),
    })
    await world.handOver('acme', 'handover', 'v-2')
    await world.elapse(5000)
    expect([valuesIn(world), valuesIn(world, 'younger')]).toEqual([['v-1', 'v-2'], undefined])
    expect(conditionOf(world, 'Stalled', 'younger')?.reason).toBe('SecretShared')
    await world.remove(registryCredentials, 'acme', 'ghcr')
    await world.handOver('acme', 'handover', 'v-3')
    await world.elapse(65_000)
    expect(valuesIn(world, 'younger')).toEqual(['v-3'])
  })

  test('both have its value where it is retained', async () => {
    const world = await stored(true)
    await world.credential('acme', 'younger', { secretRef: { name: 'handover' } })
    await world.elapse(5000)
    expect([valuesIn(world), valuesIn(world, 'younger')]).toEqual([['v-1'], ['v-1']])
  })
})
