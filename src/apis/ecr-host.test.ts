import { describe, expect, test } from 'vitest'
import { parseEcrHost } from './registry-host.ts'

const A = '123456789012'

type Row = [host: string, region: string, partition: string, fips?: boolean, dualStack?: boolean]
const TAKEN: Row[] = [
  [`${A}.dkr.ecr.us-east-1.amazonaws.com`, 'us-east-1', 'aws'],
  [`${A}.dkr.ecr.ap-southeast-7.amazonaws.com`, 'ap-southeast-7', 'aws'],
  [`${A}.dkr.ecr-fips.us-west-2.amazonaws.com`, 'us-west-2', 'aws', true],
  [`${A}.dkr.ecr.us-gov-west-1.amazonaws.com`, 'us-gov-west-1', 'aws-us-gov'],
  [`${A}.dkr.ecr-fips.us-gov-east-1.amazonaws.com`, 'us-gov-east-1', 'aws-us-gov', true],
  [`${A}.dkr.ecr.cn-north-1.amazonaws.com.cn`, 'cn-north-1', 'aws-cn'],
  [`${A}.dkr.ecr.us-iso-east-1.c2s.ic.gov`, 'us-iso-east-1', 'aws-iso'],
  [`${A}.dkr.ecr.us-isob-east-1.sc2s.sgov.gov`, 'us-isob-east-1', 'aws-iso-b'],
  [`${A}.dkr.ecr.eu-isoe-west-1.cloud.adc-e.uk`, 'eu-isoe-west-1', 'aws-iso-e'],
  [`${A}.dkr.ecr.us-isof-south-1.csp.hci.ic.gov`, 'us-isof-south-1', 'aws-iso-f'],
  [`${A}.dkr.ecr.eusc-de-east-1.amazonaws.eu`, 'eusc-de-east-1', 'aws-eusc'],
  [`${A}.dkr-ecr.eu-west-1.on.aws`, 'eu-west-1', 'aws', false, true],
  [`${A}.dkr-ecr-fips.us-east-2.on.aws`, 'us-east-2', 'aws', true, true],
  [`${A}.dkr-ecr.us-gov-west-1.on.aws`, 'us-gov-west-1', 'aws-us-gov', false, true],
  [`${A}.dkr-ecr.cn-northwest-1.on.amazonwebservices.com.cn`, 'cn-northwest-1', 'aws-cn', false, true],
]

const REFUSED: [given: string, problem: string][] = [
  [
    `${A}.dkr.ecr.eu-west-1.amazonaws.com.evil.test`,
    'eu-west-1.amazonaws.com.evil.test is not an AWS domain',
  ],
  [`${A}.dkr.ecr.eu-west-1.amazonaws.com.de`, 'is not an AWS domain'],
  [`${A}.dkr.ecr.eu-west-1.amazonaws.co`, 'is not an AWS domain'],
  [`${A}.dkr.ecr.eu-west-1.amazonaws.com-evil.test`, 'is not an AWS domain'],
  [`${A}.dkr.ecr.eu-west-1.evilamazonaws.com`, 'is not an AWS domain'],
  [`${A}.dkr.ecr.eu-west-1.on.aws.evil.test`, 'is not an AWS domain'],
  [`evil.test.${A}.dkr.ecr.eu-west-1.amazonaws.com`, 'a single AWS account and region'],
  [`${A}.evil.dkr.ecr.eu-west-1.amazonaws.com`, 'a single AWS account and region'],
  ['12345678901.dkr.ecr.eu-west-1.amazonaws.com', 'has 11 characters'],
  ['1234567890123.dkr.ecr.eu-west-1.amazonaws.com', 'has 13 characters'],
  ['12345678901a.dkr.ecr.eu-west-1.amazonaws.com', 'not all of them digits'],
  ['dkr.ecr.eu-west-1.amazonaws.com', 'a 12-digit AWS account ID'],
  ['api.ecr.eu-west-1.amazonaws.com', 'a 12-digit AWS account ID'],
  ['ecr.eu-west-1.amazonaws.com', 'a 12-digit AWS account ID'],
  [`${A}.dkr.ecr.amazonaws.com`, 'is not an AWS domain'],
  [`${A}.dkr.ecr.europe.amazonaws.com`, 'europe is not a region'],
  [`${A}.dkr.ecr.cn-north-1.amazonaws.com`, 'cn-north-1 is in the partition aws-cn'],
  [`${A}.dkr.ecr.eu-west-1.amazonaws.com.cn`, 'eu-west-1 is in the partition aws,'],
  [`${A}.dkr.ecr.eu-west-1.amazonaws.eu`, 'eu-west-1 is in the partition aws,'],
  [`${A}.dkr.ecr.eu-west-1.on.aws`, 'must have dkr-ecr, not dkr.ecr, before'],
  [`${A}.dkr-ecr.eu-west-1.amazonaws.com`, 'must have dkr.ecr, not dkr-ecr, before'],
  [`${A}.dkr.ecr.eu-west-1.amazonaws.com:443`, 'must not include a port'],
  [`${A}.dkr.ecr-phips.eu-west-1.amazonaws.com`, 'a single AWS account and region'],
  ['public.ecr.aws', 'names neither'],
  ['ecr-public.aws.com', 'names neither'],
  ['ghcr.io', 'a single AWS account and region'],
  ['docker.io', 'a single AWS account and region'],
]

describe('a host of ECR', () => {
  test.for(TAKEN)('%s is in %s of %s', ([host, region, partition, fips = false, dualStack = false]) => {
    expect(parseEcrHost(host)).toEqual({ ecr: { account: A, region, partition, fips, dualStack } })
  })

  test.for(REFUSED)('%s is none: %s', ([host, problem]) => {
    expect(parseEcrHost(host)).toEqual({ problem: expect.stringContaining(problem) })
  })
})
