/** AWS partitions, which share nothing: each has its own regions, host names and ARNs. */
export type Partition = {
  name: string
  regions: RegExp
  /** Suffixes of the host names; the second is that of dual-stack endpoints. */
  suffixes: readonly string[]
}

const PARTITIONS: readonly Partition[] = [
  {
    name: 'aws-cn',
    regions: /^cn-[a-z]+-\d$/,
    suffixes: ['amazonaws.com.cn', 'api.amazonwebservices.com.cn'],
  },
  { name: 'aws-us-gov', regions: /^us-gov-[a-z]+-\d$/, suffixes: ['amazonaws.com', 'api.aws'] },
  { name: 'aws-iso', regions: /^us-iso-[a-z]+-\d$/, suffixes: ['c2s.ic.gov', 'api.aws.ic.gov'] },
  { name: 'aws-iso-b', regions: /^us-isob-[a-z]+-\d$/, suffixes: ['sc2s.sgov.gov', 'api.aws.scloud'] },
  {
    name: 'aws-iso-e',
    regions: /^eu-isoe-[a-z]+-\d$/,
    suffixes: ['cloud.adc-e.uk', 'api.cloud-aws.adc-e.uk'],
  },
  { name: 'aws-iso-f', regions: /^us-isof-[a-z]+-\d$/, suffixes: ['csp.hci.ic.gov', 'api.aws.hci.ic.gov'] },
  {
    name: 'aws-eusc',
    regions: /^eusc-[a-z]+-[a-z]+-\d$/,
    suffixes: ['amazonaws.eu', 'api.amazonwebservices.eu'],
  },
  {
    name: 'aws',
    regions:
      /^(us|eu|ap|sa|ca|me|af|il|mx)-(north|south|east|west|central|northeast|southeast|northwest|southwest)-\d$/,
    suffixes: ['amazonaws.com', 'api.aws'],
  },
]

export function partitionNamed(name: string): Partition {
  const partition = PARTITIONS.find((one) => one.name === name)
  if (!partition) throw new RangeError(`there is no partition ${name}`)
  return partition
}

export function partitionOfRegion(region: string): Partition | undefined {
  return PARTITIONS.find(({ regions }) => regions.test(region))
}

/** Services whose host name differs from the service in the scope of their signatures. */
const HOST_NAMES: Readonly<Record<string, string>> = { 'api.ecr': 'ecr' }

/** Parses a host name of AWS. @returns undefined for another host, such as the emulator's own address */
export function endpointOf(host: string): { service: string; region: string } | undefined {
  const name = host.toLowerCase().replace(/:\d+$/, '')
  if (name === 'sts.amazonaws.com') return { service: 'sts', region: 'us-east-1' }
  for (const { regions, suffixes } of PARTITIONS) {
    for (const suffix of suffixes) {
      if (!name.endsWith(`.${suffix}`)) continue
      const labels = name.slice(0, -suffix.length - 1).split('.')
      const region = labels.pop() ?? ''
      const service = labels.join('.').replace(/-fips$/, '')
      if (regions.test(region)) return { service: HOST_NAMES[service] ?? service, region }
    }
  }
  return undefined
}
