import { GetAuthorizationTokenCommand } from '@aws-sdk/client-ecr'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type AwsBed, REGION, startAwsBed } from '../../../test/support/aws/bed.ts'
import { ContractBed } from '../../../test/support/aws/contract.ts'

let bed: AwsBed
let contract: ContractBed
beforeEach(async () => {
  bed = await startAwsBed()
  contract = new ContractBed(
    { url: bed.aws.url, credentials: bed.operator.credentials, now: () => bed.clock.now() },
    '/x',
  )
})
afterEach(async () => {
  contract.close()
  await bed.stop()
})

async function login(registryIds?: string[]): Promise<{ username: string; password: string }[]> {
  const ecr = contract.ecr(await bed.assume())
  const { authorizationData } = await ecr.send(
    new GetAuthorizationTokenCommand(registryIds ? { registryIds } : {}),
  )
  return (authorizationData ?? []).map(({ authorizationToken = '' }) => {
    const [username = '', password = ''] = Buffer.from(authorizationToken, 'base64')
      .toString()
      .split(/:(.*)/s)
    return { username, password }
  })
}

const verify = (given: { username?: string; password?: string; region?: string }) =>
  bed.aws.verifyEcrPassword({ username: 'AWS', password: '', region: REGION, ...given })

describe('the password of a registry', () => {
  it('opens the registries of its region for twelve hours', async () => {
    const [given] = await login()
    expect(verify({ ...given })).toMatchObject({ ok: true, account: '222222222222' })
    expect(verify({ ...given, region: 'us-east-1' })).toMatchObject({
      ok: false,
      status: 400,
      reason: 'wrong-region',
    })
    bed.clock.advance(12 * 3_600_000 - 1)
    expect(verify({ ...given })).toMatchObject({ ok: true })
    bed.clock.advance(1)
    expect(verify({ ...given })).toMatchObject({ ok: false, status: 403, reason: 'expired' })
  })

  it('opens nothing for another name, or changed', async () => {
    const [given] = await login()
    expect(verify({ ...given, username: 'aws' })).toMatchObject({
      ok: false,
      status: 401,
      reason: 'wrong-username',
    })
    expect(verify({ password: `${given?.password}x` })).toMatchObject({
      ok: false,
      status: 401,
      reason: 'unknown',
    })
  })

  it('is given for each registry that is asked for', async () => {
    expect(await login(['222222222222', '333333333333'])).toHaveLength(2)
  })

  it('is given to those who may have it', async () => {
    const { account, role } = bed.organization
    const Statement = { Effect: 'Allow', Action: 'ecr:*', Resource: 'arn:aws:ecr:*:*:repository/*' }
    account.changeRole(role, { policies: { pull: { Version: '2012-10-17', Statement } } })
    await expect(login()).rejects.toMatchObject({ name: 'AccessDeniedException' })
  })
})
