/** Organizations that are deleted while no controller runs: afterwards each parameter is removed or in the list of failed deletions. */
import { describe, expect, test } from 'vitest'
import { REGION, SecretsWorld, TENANT_TYPES } from '../../../test/support/secrets/secrets-world.ts'

const ACCOUNT = '111111111111'
const NAMES = ['one', 'two', 'three']
const HOUR = 3_600_000

async function deletedUnattended(meanwhile: (world: SecretsWorld) => Promise<void>): Promise<SecretsWorld> {
  const world = await SecretsWorld.start({ organizations: ['acme', 'other'] })
  for (const organization of ['acme', 'other']) await world.connect(organization, ACCOUNT)
  await world.elapse(5000)
  for (const name of NAMES) {
    await world.handOver('acme', name, `secret of ${name}`)
    await world.credential('acme', name, { secretRef: { name } })
  }
  await world.elapse(10_000)
  expect(parametersOf(world)).toHaveLength(NAMES.length)
  world.process.life.kill()
  await meanwhile(world)
  await world.cluster.terminate('acme', TENANT_TYPES)
  await world.clock.elapse(HOUR)
  await world.begin()
  await world.elapse(180_000)
  return world
}

const parametersOf = (world: SecretsWorld) =>
  [...world.cloud.store(ACCOUNT, REGION).keys()].filter((name) => !name.endsWith('_probe'))
const listed = (world: SecretsWorld) =>
  world
    .failedDeletions()
    .map(({ name }) => name)
    .sort()

describe('an organization that was deleted while no controller ran', () => {
  test('leaves no parameter', async () => {
    const world = await deletedUnattended(async () => undefined)
    expect([parametersOf(world), listed(world), world.credentials()]).toEqual([[], [], []])
  })

  test('and is no organization any more leaves no parameter', async () => {
    const world = await deletedUnattended(async (one) => void one.organizations.delete('acme'))
    expect([parametersOf(world), listed(world), world.credentials()]).toEqual([[], [], []])
  })

  test.each([
    ['denies everything', async (world: SecretsWorld) => void world.cloud.moods.set(ACCOUNT, 'denied')],
    ['cannot be reached', async (world: SecretsWorld) => void world.cloud.moods.set(ACCOUNT, 'unreachable')],
    [
      'denies deletions',
      async (world: SecretsWorld) => void world.cloud.refused.add(`ssm:Delete ${ACCOUNT}`),
    ],
    ['has lost its role', async (world: SecretsWorld) => void world.cloud.roles.clear()],
  ])('in an account that %s has each parameter in the list', async (_, change) => {
    const world = await deletedUnattended(change)
    expect(listed(world)).toEqual(parametersOf(world).sort())
    expect(listed(world)).toEqual(NAMES.map((name) => `/davit/acme/rc_${name}`).sort())
    expect(world.credentials()).toEqual([])
  })
})
