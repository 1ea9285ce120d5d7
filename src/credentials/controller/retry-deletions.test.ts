import { describe, expect, test } from 'vitest'
import { REGION, SecretsWorld } from '../../../test/support/secrets/secrets-world.ts'
import { configMaps } from '../../apis/core-kinds.ts'
import { registryCredentials } from '../../apis/registry-credential.ts'
import { FAILED_DELETIONS_NAME } from './failed-deletions.ts'

const ACCOUNT = '111111111111'
const OTHER = '222222222222'
const QUARTER = 16 * 60_000

const ECR = { type: 'ecr', registry: '123456789012.dkr.ecr.eu-west-1.amazonaws.com', username: undefined }

/** A credential was deleted while its account refused everything. */
async function orphaned(): Promise<SecretsWorld> {
  const world = await SecretsWorld.start({ organizations: ['acme'] })
  await world.connect('acme', ACCOUNT)
  await world.elapse(5000)
  await make(world, 'v-1')
  world.cloud.moods.set(ACCOUNT, 'denied')
  await world.remove(registryCredentials, 'acme', 'ghcr')
  await world.elapse(5000)
  expect(world.failedDeletions()).toHaveLength(1)
  return world
}

async function make(world: SecretsWorld, value: string): Promise<void> {
  await world.handOver('acme', 'handover', value)
  await world.credential('acme', 'ghcr', { secretRef: { name: 'handover' } })
  await world.elapse(5000)
}

const namesIn = (world: SecretsWorld) => [...world.cloud.store(ACCOUNT, REGION).keys()]

describe('an orphan', () => {
  test('is removed when the account lets Davit in again', async () => {
    const world = await orphaned()
    await world.elapse(QUARTER)
    expect(world.failedDeletions()).toHaveLength(1)
    world.cloud.moods.delete(ACCOUNT)
    await world.elapse(QUARTER)
    expect([world.failedDeletions(), namesIn(world)]).toEqual([[], []])
  })

  test('that somebody has removed leaves the list', async () => {
    const world = await orphaned()
    world.cloud.store(ACCOUNT, REGION).clear()
    world.cloud.moods.delete(ACCOUNT)
    await world.elapse(QUARTER)
    expect(world.failedDeletions()).toEqual([])
  })

  test('is removed with the role that the account has by now', async () => {
    const world = await orphaned()
    world.cloud.roles.clear()
    world.cloud.moods.delete(ACCOUNT)
    await world.settings('acme', { roleArn: world.role('acme', ACCOUNT, 'another') })
    await world.elapse(QUARTER)
    expect([world.failedDeletions(), namesIn(world)]).toEqual([[], []])
  })

  test('that a credential of the same name has taken over stays in the account, and leaves the list', async () => {
    const world = await orphaned()
    world.cloud.moods.delete(ACCOUNT)
    await world.elapse(11 * 60_000)
    await make(world, 'v-2')
    await world.elapse(QUARTER)
    expect(world.failedDeletions()).toEqual([])
    expect(world.cloud.store(ACCOUNT, REGION).get('/davit/acme/rc_ghcr')?.versions.at(-1)?.value).toBe('v-2')
  })

  test('is left alone while a credential of its name may be given its secret', async () => {
    const world = await orphaned()
    await world.credential('acme', 'ghcr')
    world.cloud.moods.delete(ACCOUNT)
    await world.elapse(2 * QUARTER)
    expect([world.failedDeletions().length, namesIn(world).length]).toEqual([1, 1])
    await world.remove(registryCredentials, 'acme', 'ghcr')
    await world.elapse(2 * QUARTER)
    expect([world.failedDeletions(), namesIn(world)]).toEqual([[], []])
  })

  test('of an account that was left is removed though a credential of its name is elsewhere', async () => {
    const world = await orphaned()
    await world.connect('acme', OTHER)
    await world.elapse(5000)
    await make(world, 'v-2')
    world.cloud.moods.delete(ACCOUNT)
    await world.elapse(QUARTER)
    expect([world.failedDeletions(), namesIn(world)]).toEqual([[], []])
    expect(world.cloud.store(OTHER, REGION).size).toBe(1)
  })

  test('is removed though a credential of ECR has its name: that one stores nothing', async () => {
    const world = await orphaned()
    await world.credential('acme', 'ghcr', ECR)
    world.cloud.moods.delete(ACCOUNT)
    await world.elapse(QUARTER)
    expect([world.failedDeletions(), namesIn(world)]).toEqual([[], []])
  })

  test('with another’s tags is not touched', async () => {
    const world = await orphaned()
    const held = world.cloud.store(ACCOUNT, REGION).get('/davit/acme/rc_ghcr')
    if (held) held.tags = {}
    world.cloud.moods.delete(ACCOUNT)
    await world.elapse(QUARTER)
    expect([world.failedDeletions().length, namesIn(world).length]).toEqual([1, 1])
  })

  test('that nobody can make sense of keeps no other from being removed', async () => {
    const world = await orphaned()
    const [real] = world.failedDeletions()
    const wild = {
      ...real,
      organization: 'No/Name',
      name: '/davit/x',
      roleArn: 'none',
      recordedAt: '2020-01-01T00:00:00Z',
    }
    const ref = { namespace: 'davit-system', name: FAILED_DELETIONS_NAME }
    await world.cluster.patch(configMaps, ref, { data: { wild: JSON.stringify(wild) } })
    world.cloud.moods.delete(ACCOUNT)
    await world.elapse(QUARTER)
    expect(namesIn(world)).toEqual([])
    expect(world.failedDeletions()).toMatchObject([{ organization: 'No/Name' }])
  })
})
