/** What Davit does seldom, with the rights that ship: there is no other test in which a lack of one would be seen. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { configMap, configMaps } from '../../src/apis/core-kinds.ts'
import { outcomeSegments } from '../../src/apis/outcome-segment.ts'
import { registryCredentials } from '../../src/apis/registry-credential.ts'
import { ApiError } from '../../src/kube/client.ts'
import { calling } from '../support/faulty-api.ts'
import { startMortalDavit } from '../support/mortal-davit.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { isReady, SecretsBed } from '../support/secrets-bed.ts'
import { until } from '../support/until.ts'

let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
})

afterAll(() => receiver?.close())

test('an outcome that was stored, and whose answer was lost, is read back and not stored twice', async () => {
  const { davit, api, stop } = await startMortalDavit('lost-answer')
  try {
    await davit.endpoint('billing', { url: `${receiver.url}/lost-answer` })
    api.fail(calling('create', outcomeSegments), { after: new ApiError('Unavailable', 'the answer is lost') })
    await davit.publish('environment.started', { number: 1 })
    await davit.deliveriesWhen('billing', ([delivery]) => delivery?.status?.state === 'succeeded')
    const read = api.calls.filter(({ verb, plural }) => verb === 'get' && plural === outcomeSegments.plural)
    expect(read).toHaveLength(1)
  } finally {
    await stop()
  }
})

test('parameters that AWS does not let go are on the list, one after the other', async () => {
  const bed = await SecretsBed.start('orphans')
  try {
    const { role } = await bed.connect()
    for (const name of ['first', 'second']) {
      await bed.handOver(`${name}-handover`, 'a-value')
      await bed.credential(name, { secretRef: { name: `${name}-handover` } })
      await bed.credentialWhen(name, isReady)
    }
    role.policies = []
    const list = { namespace: bed.davit.namespace, name: 'davit-orphaned-parameters' }
    for (const [index, name] of ['first', 'second'].entries()) {
      await bed.davit.api.delete(registryCredentials, { namespace: bed.organization, name })
      await until(
        async () => {
          bed.davit.clock.jump(5000)
          const found = await bed.davit.api.get(configMaps, list).catch(() => undefined)
          const lines = Object.keys(found ? (configMap.parse(found).data ?? {}) : {})
          return lines.length === index + 1 || undefined
        },
        () => `${name} is not on the list`,
      )
    }
  } finally {
    await bed.stop()
  }
})
