import { inspect } from 'node:util'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type AccountsBed, CountedCalls, startAccountsBed } from '../../../test/support/aws/accounts-bed.ts'
import { failureOf } from '../../../test/support/aws/failure-of.ts'
import { fixedRandom } from '../../../test/support/fake-clock.ts'
import { createRegistryTokens } from './registry-logins.ts'

const HOUR_MS = 3_600_000
const REGISTRY = { account: '333333333333', region: 'eu-west-1' }

let bed: AccountsBed
let tokens: ReturnType<typeof createRegistryTokens>

beforeEach(async () => {
  const own = ['ecr:GetAuthorizationToken']
  bed = await startAccountsBed({ operatorActions: own })
  const parts = { clock: bed.clock, random: fixedRandom(), metrics: new CountedCalls() }
  tokens = createRegistryTokens({ ...parts, userAgent: 'davit/test' })
})

afterEach(async () => {
  tokens.close()
  expect(bed.aws.defects).toEqual([])
  await bed.stop()
})

const token = () => bed.clock.rush(tokens.token(REGISTRY))

describe('a login of ECR', () => {
  it('is asked for in the region of the registry, with the identity of this process', async () => {
    const login = await token()
    expect(login.username).toBe('AWS')
    expect(login.password.reveal().length).toBeGreaterThan(20)
    expect(login.expiresAt - bed.clock.now()).toBeCloseTo(12 * HOUR_MS, -4)
    const [asked] = bed.aws.trail.entries({ operation: 'GetAuthorizationToken' })
    expect(asked).toMatchObject({ region: 'eu-west-1', principal: 'arn:aws:iam::111111111111:user/davit' })
  })

  it('shows its password nowhere', async () => {
    const login = await token()
    expect(inspect(login) + JSON.stringify(login)).not.toContain(login.password.reveal())
  })

  it('is refused with the reason', async () => {
    const effect = { code: 'AccessDeniedException', message: 'not authorized to perform', status: 400 }
    bed.aws.script.add({ operation: 'ecr:GetAuthorizationToken', effect })
    expect(await failureOf(token())).toMatchObject({
      code: 'AccessDeniedException',
      remedy: 'permissions',
      operation: 'ecr:GetAuthorizationToken',
    })
  })

  it('is asked for again when ECR is busy', async () => {
    bed.aws.script.add({ operation: 'ecr:GetAuthorizationToken', effect: 'throttle', times: 2 })
    expect((await token()).username).toBe('AWS')
  })
})
