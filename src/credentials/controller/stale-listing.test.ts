import { expect, test } from 'vitest'
import { SecretsWorld } from '../../../test/support/secrets/secrets-world.ts'

const ACCOUNT = '111111111111'
const MINUTE = 60_000

test.each([
  { what: 'does not answer', begin: 'unreachable' },
  { what: 'may not be listed any more', begin: 'refused' },
] as const)('a credential whose account $what is not said to be in sync for ever', async ({ begin }) => {
  const world = await SecretsWorld.start({ organizations: ['acme'] })
  await world.connect('acme', ACCOUNT)
  await world.elapse(5000)
  world.dies(undefined)
  await world.handOver('acme', 'handover', 'v-1', false)
  await world.credential('acme', 'ghcr', { secretRef: { name: 'handover' } })
  await world.elapse(17 * MINUTE)
  const drifted = () =>
    world.credentialOf('acme', 'ghcr')?.status?.conditions?.find(({ type }) => type === 'Drifted')
  expect(drifted()).toMatchObject({ status: 'False', reason: 'InSync' })
  if (begin === 'refused') world.cloud.refused.add('ssm:Describe')
  else world.cloud.moods.set(ACCOUNT, 'unreachable')
  await world.elapse(15 * MINUTE)
  expect(drifted()).toMatchObject({ status: 'False', reason: 'InSync' })
  await world.elapse(65 * MINUTE)
  expect(drifted()).toMatchObject({ status: 'Unknown', reason: 'ListingStale' })
  const ready = world.credentialOf('acme', 'ghcr')?.status?.conditions?.find(({ type }) => type === 'Ready')
  expect(ready?.status).toBe('True')
  world.cloud.refused.clear()
  world.cloud.moods.clear()
  await world.elapse(35 * MINUTE)
  expect(drifted()).toMatchObject({ status: 'False', reason: 'InSync' })
})
