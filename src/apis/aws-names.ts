/** The names of AWS for regions, roles and keys, in every partition. */

export type AwsPartition = {
  name: string
  /** Prefix of its regions. */
  regions: string
  /** Suffix of its hosts. */
  dnsSuffix: string
}

/** The commercial partition comes last: its regions have no prefix of their own. */
export const AWS_PARTITIONS: readonly AwsPartition[] = [
  { name: 'aws-cn', regions: 'cn-', dnsSuffix: 'amazonaws.com.cn' },
  { name: 'aws-us-gov', regions: 'us-gov-', dnsSuffix: 'amazonaws.com' },
  { name: 'aws-iso', regions: 'us-iso-', dnsSuffix: 'c2s.ic.gov' },
  { name: 'aws-iso-b', regions: 'us-isob-', dnsSuffix: 'sc2s.sgov.gov' },
  { name: 'aws-iso-e', regions: 'eu-isoe-', dnsSuffix: 'cloud.adc-e.uk' },
  { name: 'aws-iso-f', regions: 'us-isof-', dnsSuffix: 'csp.hci.ic.gov' },
  { name: 'aws-eusc', regions: 'eusc-', dnsSuffix: 'amazonaws.eu' },
  { name: 'aws', regions: '', dnsSuffix: 'amazonaws.com' },
]

/** Alternatives for a pattern. */
export const PARTITION_NAMES = AWS_PARTITIONS.map(({ name }) => name).join('|')

export const AWS_REGION = /^[a-z]{2,4}(-[a-z]+){1,2}-[1-9][0-9]?$/
export const MAX_REGION = 25

/** IAM: a path of at most 512 characters, a name of at most 64. */
export const ROLE_ARN = new RegExp(
  `^arn:(${PARTITION_NAMES}):iam::([0-9]{12}):role/(([A-Za-z0-9+=,.@_-]+/)*)([A-Za-z0-9+=,.@_-]{1,64})$`,
)
/** `arn:aws-us-gov:iam::123456789012:role`, a path and a name. */
export const MAX_ROLE_ARN = 613

/** A key id; `mrk-` marks a multi-Region key. */
const KEY_ID = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|mrk-[0-9a-f]{32}'
const KEY_ALIAS = 'alias/[A-Za-z0-9/_-]{1,250}'

export const KMS_KEY = new RegExp(
  `^((${KEY_ID})|${KEY_ALIAS}|arn:(${PARTITION_NAMES}):kms:([a-z0-9-]+):([0-9]{12}):(key/(${KEY_ID})|${KEY_ALIAS}))$`,
)
export const MAX_KMS_KEY = 320

/** The start of the names of ECR repositories: what they consist of, and so nothing that is a wildcard in a policy. */
export const REPOSITORY_PREFIX = /^[a-z0-9][a-z0-9._/-]*$/
/** The longest name of a repository. */
export const MAX_REPOSITORY_PREFIX = 256

/** Unknown regions count as commercial. */
export function partitionOfRegion(region: string): string {
  return AWS_PARTITIONS.find(({ regions }) => region.startsWith(regions))?.name ?? 'aws'
}

/** `partitionOfRegion` in CEL, on the field `self.region`. */
export const PARTITION_OF_REGION_CEL = AWS_PARTITIONS.reduceRight(
  (others, { name, regions }) =>
    regions === '' ? `'${name}'` : `(self.region.startsWith('${regions}') ? '${name}' : ${others})`,
  '',
)
