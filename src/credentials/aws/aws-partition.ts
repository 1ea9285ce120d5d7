/** ARNs and names of services in the partition of a region. */
import { AWS_PARTITIONS, partitionOfRegion } from '../../apis/aws-names.ts'

/** Where parameters are. `account` is `*` while it is not known. */
export type AwsScope = { partition: string; region: string; account: string }

export function awsScopeOf(region: string, account: string): AwsScope {
  return { partition: partitionOfRegion(region), region, account }
}

/** @param name with its slash at the front; it may end with `*` in a policy */
export function parameterArn({ partition, region, account }: AwsScope, name: string): string {
  return `arn:${partition}:ssm:${region}:${account}:parameter${name}`
}

/**
 * Values of `kms:ViaService` for the parameter store. Outside of the commercial partition policies are found with the names of
 * either; a request has one of them.
 */
export function parameterStoreServices({ partition, region }: AwsScope): string[] {
  const suffix = AWS_PARTITIONS.find(({ name }) => name === partition)?.dnsSuffix ?? 'amazonaws.com'
  return [...new Set(['amazonaws.com', suffix])].map((end) => `ssm.${region}.${end}`)
}
