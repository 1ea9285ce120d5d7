/**
 * The host of a registry, by the grammar of image references (interface §2.1), in the one form in which hosts are compared:
 * lower case, no dot at the end, one name for Docker Hub, short IPv6.
 */

/** `host` is canonical, with its port where one was given. */
export type RegistryHost = { host: string; problem?: never } | { host?: never; problem: string }

const MAX_NAME = 253
const MAX_LABEL = 63
const DOCKER_HUB = 'docker.io'
/** Names under which people write it, and tools ask it. */
const DOCKER_HUB_ALIASES: ReadonlySet<string> = new Set([
  'docker.io',
  'www.docker.io',
  'index.docker.io',
  'registry-1.docker.io',
])

type Parts = { name: string; port?: string }

/** @returns the canonical host, or what is wrong in words that follow "registry" */
export function parseRegistryHost(text: string): RegistryHost {
  const shape = shapeProblem(text)
  if (shape !== undefined) return { problem: shape }
  const parts = text.startsWith('[') ? bracketed(text) : split(text)
  if ('problem' in parts) return { problem: parts.problem }
  const wrong = parts.port === undefined ? undefined : portProblem(parts.port)
  if (wrong !== undefined) return { problem: wrong }
  return parts.name.startsWith('[') ? ipv6Host(parts) : namedHost(parts)
}

/** What is more than a host is named as what it is. */
function shapeProblem(text: string): string | undefined {
  if (text === '') return 'must not be empty; give a host such as ghcr.io'
  if (/[\p{Cc}\p{Z}]/u.test(text)) return 'must not have white space or control characters'
  if (text.includes('://')) return 'must have no scheme; leave out https:// and the like'
  if (text.includes('@')) return 'must have neither a user nor a digest; a user belongs into username'
  if (/[/\\]/.test(text)) return 'must have no path; give the host alone'
  if (/[?#]/.test(text)) return 'must have neither query nor fragment; give the host alone'
  return undefined
}

function bracketed(text: string): Parts | { problem: string } {
  const [, name, port] = /^(\[[^\]]*\])(?::(.*))?$/.exec(text) ?? []
  if (name === undefined)
    return { problem: 'must be an IPv6 address in brackets, with a port behind it or nothing' }
  return { name, ...(port === undefined ? {} : { port }) }
}

function split(text: string): Parts | { problem: string } {
  const [name = '', port, ...rest] = text.split(':')
  if (rest.length > 0) return { problem: 'must have an IPv6 address in brackets, such as [2001:db8::1]:5000' }
  return { name, ...(port === undefined ? {} : { port }) }
}

function portProblem(port: string): string | undefined {
  if (!/^[0-9]+$/.test(port)) return 'must have no tag; what follows the colon is the number of a port'
  const valid = /^[1-9][0-9]{0,4}$/.test(port) && Number(port) <= 65_535
  return valid ? undefined : 'must have a port from 1 to 65535, without zeros before it'
}

function ipv6Host({ name, port }: Parts): RegistryHost {
  if (name.includes('%')) return { problem: 'must be an IPv6 address without a zone' }
  if (name.includes('.'))
    return { problem: 'must not be an IPv4 address in the form of IPv6; give it as such' }
  const short = hostnameOf(name)
  if (short === undefined) return { problem: 'must have a valid IPv6 address in the brackets' }
  return { host: joined({ name: short, ...(port === undefined ? {} : { port }) }) }
}

function namedHost({ name, port }: Parts): RegistryHost {
  const lower = name.toLowerCase().replace(/\.$/, '')
  const problem = nameProblem(lower, port)
  if (problem !== undefined) return { problem }
  const canonical = DOCKER_HUB_ALIASES.has(lower) ? DOCKER_HUB : lower
  return { host: joined({ name: canonical, ...(port === undefined ? {} : { port }) }) }
}

function nameProblem(name: string, port: string | undefined): string | undefined {
  if (/\P{ASCII}/u.test(name)) return internationalProblem(name)
  if (name.length > MAX_NAME) return `must have a name of at most ${MAX_NAME} characters`
  const labels = name.split('.')
  if (labels.some((label) => label.length > MAX_LABEL))
    return `must have at most ${MAX_LABEL} characters between two dots`
  if (!labels.every((label) => /^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/.test(label)))
    return 'must be letters, digits and dashes between single dots, with no dash beside a dot'
  if (labels.length === 1 && port === undefined && name !== 'localhost')
    return 'must have a dot or a port, else a reference means it as the name of an image; only localhost needs neither'
  return numericProblem(name, labels)
}

/** The name that a look-up would use is shown, so that nobody has to guess what a letter looks like. */
function internationalProblem(name: string): string {
  const ascii = hostnameOf(name)
  return ascii === undefined
    ? 'must be an ASCII name; this one has no such form'
    : `must be an ASCII name; write ${ascii}`
}

/** Some programs read `127.1` and `0x7f.0.0.1` as addresses, others as names. */
function numericProblem(name: string, labels: readonly string[]): string | undefined {
  if (!/^(\d+|0x[0-9a-f]*)$/.test(labels.at(-1) ?? '')) return undefined
  return hostnameOf(name) === name
    ? undefined
    : 'must be a name, or an IPv4 address as four numbers from 0 to 255'
}

/** As the standard for URLs reads it; undefined where it is no host. */
function hostnameOf(name: string): string | undefined {
  const url = URL.parse(`https://${name}`)
  return url === null || url.hostname === '' ? undefined : url.hostname
}

function joined({ name, port }: Parts): string {
  return port === undefined ? name : `${name}:${port}`
}
