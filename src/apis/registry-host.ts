/**
 * The hosts of container registries (interface §2.1), by the grammar of image references: in the canonical form in which they are
 * compared, and as hosts of Amazon ECR.
 */
import { AWS_REGION, partitionOfRegion } from './aws-names.ts'

/**
 * `host` is canonical: lower case, no trailing dot, one name for Docker Hub, short IPv6; with its port unless that is the one of HTTPS,
 * which every registry has without it. Registries are compared in this form only.
 */
export type RegistryHost = { host: string; problem?: never } | { host?: never; problem: string }

const MAX_NAME = 253
const MAX_LABEL = 63
export const DOCKER_HUB = 'docker.io'
/** Names that people and tools use for it. */
const DOCKER_HUB_ALIASES: ReadonlySet<string> = new Set([
  DOCKER_HUB,
  'www.docker.io',
  'index.docker.io',
  'registry-1.docker.io',
  'registry.hub.docker.com',
])
const DOCKER_HUB_WEBSITE = 'hub.docker.com'
const HTTPS_PORT = '443'

type Parts = { name: string; port?: string | undefined }

/** @returns the canonical host, or the problem in words that follow "registry" */
export function parseRegistryHost(text: string): RegistryHost {
  const shape = shapeProblem(text)
  if (shape !== undefined) return { problem: shape }
  const parts = text.startsWith('[') ? bracketed(text) : split(text)
  if ('problem' in parts) return { problem: parts.problem }
  const wrong = parts.port === undefined ? undefined : portProblem(parts.port)
  if (wrong !== undefined) return { problem: wrong }
  return parts.name.startsWith('[') ? ipv6Host(parts) : namedHost(parts)
}

/** Names the part that is not a host. */
function shapeProblem(text: string): string | undefined {
  if (text === '') return 'must not be empty; specify a host such as ghcr.io'
  if (/[\p{Cc}\p{Z}]/u.test(text)) return 'must not contain whitespace or control characters'
  if (text.includes('://')) return 'must not include a scheme such as https://'
  if (text.includes('@'))
    return 'must not include a user name or a digest; put the user name in the username field'
  if (/[/\\]/.test(text)) return 'must not include a path; specify only the host'
  if (/[?#]/.test(text)) return 'must not include a query or a fragment; specify only the host'
  return undefined
}

function bracketed(text: string): Parts | { problem: string } {
  const [, name, port] = /^(\[[^\]]*\])(?::(.*))?$/.exec(text) ?? []
  if (name === undefined)
    return { problem: 'must be an IPv6 address in brackets, optionally followed by a port' }
  return { name, port }
}

function split(text: string): Parts | { problem: string } {
  const [name = '', port, ...rest] = text.split(':')
  if (rest.length > 0)
    return {
      problem:
        'must not contain more than one colon, unless it is an IPv6 address in brackets, such as [2001:db8::1]:5000',
    }
  return { name, port }
}

function portProblem(port: string): string | undefined {
  if (!/^[0-9]+$/.test(port)) return 'must not include a tag; only a port number may follow the colon'
  const valid = /^[1-9][0-9]{0,4}$/.test(port) && Number(port) <= 65_535
  return valid ? undefined : 'must have a port number from 1 to 65535, without leading zeros, after the colon'
}

function ipv6Host({ name, port }: Parts): RegistryHost {
  if (name.includes('%')) return { problem: 'must be an IPv6 address without a zone' }
  if (name.includes('.')) return { problem: 'must not be an IPv4 address in IPv6 form; use the IPv4 form' }
  const short = hostnameOf(name)
  if (short === undefined) return { problem: 'must have a valid IPv6 address in the brackets' }
  return { host: joined({ name: short, port: port === HTTPS_PORT ? undefined : port }) }
}

function namedHost({ name, port }: Parts): RegistryHost {
  const lower = name.toLowerCase().replace(/\.$/, '')
  const problem = nameProblem(lower, port)
  if (problem !== undefined) return { problem }
  if (port !== undefined && (port !== HTTPS_PORT || needsPort(lower)))
    return { host: joined({ name: lower, port }) }
  if (lower === DOCKER_HUB_WEBSITE)
    return { problem: `must be ${DOCKER_HUB}; ${DOCKER_HUB_WEBSITE} is only the website of Docker Hub` }
  return { host: DOCKER_HUB_ALIASES.has(lower) ? DOCKER_HUB : lower }
}

/** Without one, an image reference would have the name in its path. */
function needsPort(name: string): boolean {
  return !name.includes('.') && name !== 'localhost'
}

function nameProblem(name: string, port: string | undefined): string | undefined {
  if (/\P{ASCII}/u.test(name)) return internationalProblem(name)
  if (name.length > MAX_NAME) return `must have a host name of at most ${MAX_NAME} characters`
  const labels = name.split('.')
  if (labels.some((label) => label.length > MAX_LABEL))
    return `must have at most ${MAX_LABEL} characters between dots`
  if (!labels.every((label) => /^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/.test(label)))
    return 'must consist of letters, digits and dashes, separated by single dots; each part must begin and end with a letter or digit'
  if (port === undefined && needsPort(name))
    return 'must contain a dot or a port; otherwise it would be read as part of the image name (the only exception is localhost)'
  return numericProblem(name, labels)
}

/** Shows the name that a lookup would use, since letters may look alike. */
function internationalProblem(name: string): string {
  const ascii = hostnameOf(name)
  return ascii === undefined
    ? 'must be an ASCII name; this name cannot be converted to ASCII'
    : `must be an ASCII name; use ${ascii}`
}

/** Programs disagree whether `127.1` and `0x7f.0.0.1` are addresses. */
function numericProblem(name: string, labels: readonly string[]): string | undefined {
  if (!/^(\d+|0x[0-9a-f]*)$/.test(labels.at(-1) ?? '')) return undefined
  return hostnameOf(name) === name
    ? undefined
    : 'must be a host name or an IPv4 address (four numbers from 0 to 255)'
}

/** By the URL standard; undefined if invalid. */
function hostnameOf(name: string): string | undefined {
  const url = URL.parse(`https://${name}`)
  return url === null || url.hostname === '' ? undefined : url.hostname
}

function joined({ name, port }: Parts): string {
  return port === undefined ? name : `${name}:${port}`
}

/** The host of a URL that a registry sent, for comparison: URLs have no default port, but may have a trailing dot. */
export function hostOfUrl({ hostname, port }: URL): string {
  return joined({ name: hostname.replace(/\.$/, ''), port: port === '' ? undefined : port })
}

/** `hostOfUrl` of a host with or without a port; undefined if it is not one. */
export function urlHostOf(text: string): string | undefined {
  const url = URL.parse(`https://${text}`)
  return url === null ? undefined : hostOfUrl(url)
}

export type EcrHost = {
  account: string
  region: string
  partition: string
  fips: boolean
  dualStack: boolean
}

type Suffix = { name: string; partitions: readonly string[]; dualStack: boolean }

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
 * Parses a host of one account and region, in every partition, with FIPS and dual-stack forms. Lookalikes are refused: they would get
 * the credential. @param host canonical @returns the parts, or the problem in words that follow "registry"
 */
export function parseEcrHost(
  host: string,
): { ecr: EcrHost; problem?: never } | { ecr?: never; problem: string } {
  if (PUBLIC.has(host))
    return {
      problem: `must be the host of a single AWS account and region, such as ${EXAMPLE}; ${host} names neither`,
    }
  if (host.includes(':'))
    return { problem: `must not include a port if type is ecr; use a host such as ${EXAMPLE}` }
  const [, account = '', style, fips, region = '', end = ''] = HOST.exec(host) ?? []
  if (style === undefined) return { problem: unlike(host) }
  const suffix = SUFFIXES.find(({ name }) => name === end)
  if (suffix === undefined)
    return {
      problem: `must end with an AWS domain, as ${EXAMPLE} does; ${region}.${end} is not an AWS domain`,
    }
  const problem = accountProblem(account) ?? regionProblem(region, suffix) ?? styleProblem(style, suffix)
  if (problem !== undefined) return { problem }
  const partition = partitionOfRegion(region)
  return { ecr: { account, region, partition, fips: fips !== undefined, dualStack: suffix.dualStack } }
}

function unlike(host: string): string {
  if (/^(dkr|api)[.-]ecr[.-]|^ecr\./.test(host))
    return `must begin with a 12-digit AWS account ID, as ${EXAMPLE} does`
  return `must be the ECR host of a single AWS account and region, such as ${EXAMPLE}`
}

function accountProblem(account: string): string | undefined {
  if (/^[0-9]{12}$/.test(account)) return undefined
  return `must begin with a 12-digit AWS account ID; ${account} has ${account.length} characters${
    /^[0-9]*$/.test(account) ? '' : ', not all of them digits'
  }`
}

function regionProblem(region: string, { name, partitions }: Suffix): string | undefined {
  if (!AWS_REGION.test(region))
    return `must contain an AWS region such as eu-west-1; ${region} is not a region`
  const partition = partitionOfRegion(region)
  return partitions.includes(partition)
    ? undefined
    : `must use a domain of the region's AWS partition: ${region} is in the partition ${partition}, whose hosts do not end with ${name}`
}

/** `dkr.ecr` is the form of IPv4 hosts, `dkr-ecr` that of dual-stack hosts. */
function styleProblem(style: string, { name, dualStack }: Suffix): string | undefined {
  const wanted = dualStack ? 'dkr-ecr' : 'dkr.ecr'
  return style === wanted
    ? undefined
    : `must have ${wanted}, not ${style}, before the region, because hosts that end with ${name} use ${wanted}`
}
