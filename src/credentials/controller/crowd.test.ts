/** One organization with thousands of credentials that all wait for AWS. */
import { expect, test } from 'vitest'
import { SecretsWorld } from '../../../test/support/secrets/secrets-world.ts'
import { registryCredentials } from '../../apis/registry-credential.ts'

const CROWD = 3000
const MANY = '111111111111'
const FEW = '222222222222'

test('leaves room for the credentials of others, for what is deleted, and for what needs no account', async () => {
  const world = await SecretsWorld.start({ organizations: ['many', 'few'] })
  await world.connect('many', MANY)
  await world.connect('few', FEW)
  await world.handOver('many', 'first', 'v-first')
  await world.credential('many', 'first', { secretRef: { name: 'first' } })
  await world.elapse(5000)
  world.cloud.held.set('ssm:Put many', new Promise(() => undefined))
  await world.handOver('many', 'handover', 'v-1', true)
  for (let n = 0; n < CROWD; n += 1)
    await world.credential('many', `n${n}`, { secretRef: { name: 'handover' } })
  await world.elapse(10_000)

  const host = { type: 'ecr', registry: '123456789012.dkr.ecr.eu-west-1.amazonaws.com', username: undefined }
  await world.credential('many', 'own', host)
  await world.handOver('few', 'handover', 'v-2')
  await world.credential('few', 'ghcr', { secretRef: { name: 'handover' } })
  for (const name of ['first', 'n0', `n${CROWD - 1}`]) await world.remove(registryCredentials, 'many', name)
  await world.elapse(5000)

  const readyOf = (organization: string, name: string) =>
    world.credentialOf(organization, name)?.status?.conditions?.find(({ type }) => type === 'Ready')?.status
  expect([readyOf('few', 'ghcr'), readyOf('many', 'own')]).toEqual(['True', 'True'])
  const left = world.credentials().map(({ metadata }) => metadata.name)
  for (const name of ['first', 'n0', `n${CROWD - 1}`]) expect(left).not.toContain(name)
  expect([...world.cloud.store(MANY, 'eu-west-1').keys()]).toEqual([])
})
