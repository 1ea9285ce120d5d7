import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  type AccountsBed,
  ORGANIZATIONS,
  parameter,
  startAccountsBed,
} from '../../../test/support/aws/accounts-bed.ts'
import { probeAccount } from './probe.ts'

const RATE = { perSecond: 3, burst: 3 }

let bed: AccountsBed

beforeEach(async () => {
  bed = await startAccountsBed({ rates: { puts: RATE }, writes: RATE })
})

afterEach(async () => {
  expect(bed.aws.defects).toEqual([])
  await bed.stop()
})

test('an account whose writes all others wait for is found out about, in its turn', async () => {
  const [newcomer = '', ...others] = ORGANIZATIONS
  const limits = { turnMs: 3_600_000 }
  const waiting = others.flatMap((organization) =>
    ['one', 'two', 'three'].map((name) =>
      bed.cloud.create(bed.access(organization), parameter(`/davit/${organization}/rc_${name}`), limits),
    ),
  )
  const accounts = {
    ownerOf: (organizationUid: string) => ({ installation: 'here', organizationUid }),
    tagsOf: () => ({ 'davit.dev/installation': 'here' }),
  }
  const random = { fraction: () => 0.5, bytes: (count: number) => new Uint8Array(count) }
  const options = { cloud: bed.cloud, accounts, prefix: '/davit', random }
  const results = await bed.clock.rush(probeAccount(options, bed.access(newcomer)))
  expect(results.put).toEqual({ value: true })
  await bed.clock.rush(Promise.all(waiting))
})
