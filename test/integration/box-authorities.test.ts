/** The authorities that the operator has named to all bakes, on the real API server. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { configMaps } from '../../src/apis/core-kinds.ts'
import { code, conditionsOf, DB, startBakingDavit, state } from '../support/baking-davit.ts'
import type { JobStandIn } from '../support/job-stand-in.ts'
import type { SecretsBed } from '../support/secrets-bed.ts'
import { createTestAuthority } from '../support/tls.ts'

let secrets: SecretsBed
let bed: JobStandIn

beforeAll(async () => {
  const env = { DAVIT_BAKE_CA_CONFIG_MAP: 'davit-bake-ca/ca-bundle.crt' }
  ;({ secrets, bed } = await startBakingDavit('box-authorities', { env }))
})

afterAll(async () => {
  await secrets?.stop()
})

const look = async (name: string) => {
  secrets.davit.clock.jump(61_000)
  await bed.wake(name)
}

describe('where an organization lacks them', () => {
  test('a bake fails in words, without a Job, and waits for them', async () => {
    await bed.make('shop', { services: [DB] })
    const template = await bed.templateWhen('shop', code('ca_missing'))
    expect(template.status?.bake?.failure).toMatchObject({
      step: 'check',
      message: expect.stringContaining('ConfigMap davit-bake-ca'),
      fix: expect.stringContaining('Create or correct the ConfigMap'),
    })
    expect(conditionsOf(template)).toMatchObject({
      Ready: 'False CaMissing',
      Reconciling: 'True CaMissing',
      Stalled: 'absent',
    })
    expect(await bed.jobs('shop')).toEqual([])
  })

  test('or what is there is no certificate, it says so', async () => {
    await bed.configMap('davit-bake-ca', { 'ca-bundle.crt': 'none yet' })
    await look('shop')
    const template = await bed.templateWhen(
      'shop',
      ({ status }) => status?.bake?.failure?.message.includes('under the key ca-bundle.crt') === true,
    )
    expect(template.status?.bake?.failure?.code).toBe('ca_missing')
    expect(await bed.jobs('shop')).toEqual([])
  })

  test('it begins when they have come, with them and with the addresses of AWS in its pod', async () => {
    const ref = { namespace: bed.organization, name: 'davit-bake-ca' }
    await secrets.davit.api.patch(configMaps, ref, { data: { 'ca-bundle.crt': createTestAuthority().ca } })
    await look('shop')
    const { spec } = (await bed.job('shop')).spec.template
    expect(spec).toMatchObject({
      volumes: expect.arrayContaining([
        expect.objectContaining({
          configMap: expect.objectContaining({
            name: 'davit-bake-ca',
            items: [{ key: 'ca-bundle.crt', path: 'ca.crt' }],
          }),
        }),
      ]),
      containers: [
        {
          env: expect.arrayContaining([
            { name: 'AWS_ENDPOINT_URL', value: secrets.aws.emulator.url },
            { name: 'DAVIT_EXTRA_CA_FILE', value: '/etc/davit/ca/ca.crt' },
          ]),
        },
      ],
    })
    // The namespace takes only pods that fit the restricted standard.
    await bed.succeed('shop')
    await bed.templateWhen('shop', state('succeeded'))
  })
})
