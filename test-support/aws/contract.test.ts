/** The contract of everything that replaces AWS; the other implementation that it runs on is in test/contract. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ALLOW_ALL, type AwsBed, startAwsBed, trustPolicy } from '../../test/support/aws/bed.ts'
import { type ContractTarget, runCase } from '../../test/support/aws/contract.ts'
import { AWS_CONTRACT } from '../../test/support/aws/contract-cases.ts'

describe('the double', () => {
  let bed: AwsBed
  let target: ContractTarget

  beforeAll(async () => {
    bed = await startAwsBed()
    const { aws, clock, operator } = bed
    const other = aws.accounts.add('333333333333')
    other.addRole('davit-writer', { trust: trustPolicy(operator.arn), policies: { all: ALLOW_ALL } })
    target = { url: aws.url, credentials: operator.credentials, now: () => clock.now() }
  })
  afterAll(() => bed.stop())

  for (const one of AWS_CONTRACT) it(one.name, () => runCase(target, one))

  it('was asked for nothing that it does not know', () => {
    expect(bed.aws.defects).toEqual([])
  })
})
