/**
 * The hosts of Amazon ECR: one account and one region each (interface §2.1), in every partition, with FIPS and dual-stack
 * forms. What only looks like one is refused by name: a credential would go to somebody else's server.
 */
import { AWS_REGION, partitionOfRegion } from './aws-names.ts'

export type EcrHost = {
  account: string
  region: string
  partition: string
  fips: boolean
  dualStack: boolean
}

type Suffix = { name: string; partitions: readonly string[]; dualStack: boolean }

/** What follows the region. */
const SUFFIXES: readonly Suffix[] = [
  { name: 'amazonaws.com', partitions: ['aws', 'aws-us-gov'], dualStack: false },
  { name: 'amazonaws.com.cn', partitions: ['aws-cn'], dualStack: false },
  { name: 'amazonaws.eu', partitions: ['aws-eusc'], dualStack: false },
  { name: 'c2s.ic.gov', partitions: ['aws-iso'], dualStack: false },
  { name: 'sc2s.sgov.gov', partitions: ['aws-iso-b'], dualStack: false },
  { name: 'cloud.adc-e.uk', partitions: ['aws-iso-e'], dualStack: false },
  { name: 'csp.hci.ic.gov', partitions: ['aws-iso-f'], dualStack: false },
  { name: 'on.aws', partitions: ['aws', 'aws-us-gov'], dualStack: true },
  { name: 'on.amazonwebservices.com.cn', partitions: ['aws-cn'], dualStack: true },
]

const EXAMPLE = '123456789012.dkr.ecr.eu-west-1.amazonaws.com'
const PUBLIC = new Set(['public.ecr.aws', 'ecr-public.aws.com'])
const HOST = /^([^.]+)\.(dkr\.ecr|dkr-ecr)(-fips)?\.([^.]+)\.(.+)$/

/**
 * @param host canonical, as `parseRegistryHost` gives it
 * @returns what it names, or what is wrong in words that follow "registry"
 */
export function parseEcrHost(
  host: string,
): { ecr: EcrHost; problem?: never } | { ecr?: never; problem: string } {
  if (PUBLIC.has(host))
    return {
      problem: `must be the host of one account and one region, such as ${EXAMPLE}; ${host} has neither`,
    }
  if (host.includes(':')) return { problem: `must have no port for ecr; ECR is ${EXAMPLE} and the like` }
  const [, account = '', style, fips, region = '', end = ''] = HOST.exec(host) ?? []
  if (style === undefined) return { problem: unlike(host) }
  const suffix = SUFFIXES.find(({ name }) => name === end)
  if (suffix === undefined)
    return { problem: `must end with a name of AWS, as ${EXAMPLE} does; ${region}.${end} is none` }
  const problem = accountProblem(account) ?? regionProblem(region, suffix) ?? styleProblem(style, suffix)
  if (problem !== undefined) return { problem }
  const partition = partitionOfRegion(region)
  return { ecr: { account, region, partition, fips: fips !== undefined, dualStack: suffix.dualStack } }
}

function unlike(host: string): string {
  if (/^(dkr|api)[.-]ecr[.-]|^ecr\./.test(host))
    return `must begin with the 12 digits of an account, as ${EXAMPLE} does`
  return `must be the host of ECR in one account and one region, such as ${EXAMPLE}`
}

function accountProblem(account: string): string | undefined {
  if (/^[0-9]{12}$/.test(account)) return undefined
  return `must begin with the 12 digits of an account; ${account} has ${account.length} characters${
    /^[0-9]*$/.test(account) ? '' : ', and not digits alone'
  }`
}

function regionProblem(region: string, { name, partitions }: Suffix): string | undefined {
  if (!AWS_REGION.test(region)) return `must name a region such as eu-west-1; ${region} is none`
  const partition = partitionOfRegion(region)
  return partitions.includes(partition)
    ? undefined
    : `must be of one partition: ${region} is in ${partition}, where no host ends with ${name}`
}

/** `dkr.ecr` is the form of the old hosts, `dkr-ecr` that of those with IPv6. */
function styleProblem(style: string, { name, dualStack }: Suffix): string | undefined {
  const wanted = dualStack ? 'dkr-ecr' : 'dkr.ecr'
  return style === wanted ? undefined : `must have ${wanted} before a region of ${name}, not ${style}`
}
