import { GetAuthorizationTokenCommand } from '@aws-sdk/client-ecr'
import { expect } from 'vitest'
import type { ContractBed, ContractCase } from './contract.ts'

const LIFETIME_MS = 12 * 60 * 60 * 1000

async function token(bed: ContractBed, region?: string) {
  const ecr = bed.ecr(await bed.assume(), region)
  const { authorizationData } = await ecr.send(new GetAuthorizationTokenCommand({}))
  expect(authorizationData).toHaveLength(1)
  return authorizationData?.[0]
}

export const ECR_CASES: readonly ContractCase[] = [
  {
    name: 'gives out a password for the registry of account and region',
    async run(bed) {
      const given = await token(bed, 'us-east-1')
      expect(Buffer.from(given?.authorizationToken ?? '', 'base64').toString()).toMatch(/^AWS:.+/)
      expect(given?.proxyEndpoint).toBe('https://222222222222.dkr.ecr.us-east-1.amazonaws.com')
    },
  },
  {
    name: 'lets the password of a registry live for twelve hours',
    async run(bed) {
      const lasts = ((await token(bed))?.expiresAt?.getTime() ?? 0) - bed.target.now()
      expect(Math.abs(lasts - LIFETIME_MS)).toBeLessThan(10_000)
    },
  },
]
