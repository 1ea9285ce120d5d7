import { promises as dns } from 'node:dns'
import { readFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import { networkInterfaces } from 'node:os'
import type { Clock } from '../lib/time.ts'
import { addressClass } from './egress-policy.ts'

/**
 * Resolves names that users choose. Webhooks ask DNS directly (`createResolver`): getaddrinfo runs on two threads of the process, so
 * a few names with a slow server would block all other names, of every organization and of AWS. A bake resolves with `lookUp`, as the
 * tool that pulls the image does.
 */

/**
 * Addresses of a name, at least one.
 * @param signal aborted when the caller no longer needs them @throws Error with a code of node:dns (`ENOTFOUND`, `ETIMEOUT`, ...)
 */
export type Resolve = (hostname: string, signal?: AbortSignal) => Promise<readonly string[]>

/** What was found in DNS as written, or else by the machine's hosts file or search list. */
export type ResolvedName = { addresses: readonly string[]; isMachineName: false } | MachineName

/** `asWritten`: the answer of DNS for the name as written, which may still have addresses if it is late. */
type MachineName = { addresses: readonly string[]; isMachineName: true; asWritten: Promise<Answer> }

/** @param hostname with a dot at the end: only as written */
export type ResolveName = (hostname: string, signal?: AbortSignal) => Promise<ResolvedName>

/** Single DNS queries; tests replace them. Both reject with a code of node:dns. */
export type NameServer = {
  resolve4(hostname: string): Promise<string[]>
  resolve6(hostname: string): Promise<string[]>
  /** Absent: none. */
  machineNames?(): Promise<MachineNames>
}

/** What the machine knows of names in addition to DNS. */
export type MachineNames = {
  /** By name in lower case. */
  hosts: ReadonlyMap<string, readonly string[]>
  /** Domains without a dot at the end, in the order in which they are tried. */
  search: readonly string[]
  /** Names with fewer dots are completed with a domain of the search list even if DNS does not respond to them as written. */
  ndots: number
}

export type ResolverOptions = {
  clock: Pick<Clock, 'after'>
  /** Whether names that DNS does not have as written may be names of the machine, for receivers inside the cluster. */
  machineNames: boolean
  server?: NameServer | undefined
  /** Whether this machine can send to an address of this family. Default: by its network interfaces. */
  canReach?: (address: string) => boolean
}

const QUERY_TIMEOUT_MS = 2000
const QUERY_TRIES = 2
/** How long the first answer waits for the other family (RFC 8305 §3). Some servers never answer one of the two. */
const RESOLUTION_DELAY_MS = 50
/**
 * How long DNS may take for a name as written before the machine's own names are tried as well. The DNS of a cluster whose upstream is
 * dead stays silent for `receiver.acme.svc`, but knows `receiver.acme.svc.cluster.local`.
 */
const SILENCE_MS = 1000
/** Questions that nobody waits for end by their timeouts. Beyond this number, look-ups wait for both answers. */
const MAX_OPEN_QUESTIONS = 4096
const MAX_ADDRESSES = 6
const MAX_NAME_LENGTH = 253

const NOT_FOUND: ReadonlySet<unknown> = new Set(['ENOTFOUND', 'ENODATA'])

/** Without an address, there is an error. */
type Answer = { addresses: readonly string[]; error?: unknown }
type Answers = { v4?: Answer; v6?: Answer }
type Running = { result: Promise<ResolvedName>; waiting: number }

/** The machine's own way: /etc/hosts, search list. */
export const lookUp: Resolve = async (hostname) =>
  (await dns.lookup(hostname, { all: true })).map(({ address }) => address)

export function createResolver(options: ResolverOptions): ResolveName {
  const { server = createNameServer(), clock, canReach = isReachable } = options
  const questions = new Map<string, Promise<Answer>>()
  const running = new Map<string, Running>()

  /** One question at a time for each name and family: a burst to one receiver asks once, and so does a series of look-ups of a name whose server is silent. */
  function ask(family: 4 | 6, name: string): Promise<Answer> {
    const key = `${family} ${name}`
    const open = questions.get(key)
    if (open) return open
    const answer = answerOf(() => (family === 4 ? server.resolve4(name) : server.resolve6(name))).finally(
      () => questions.delete(key),
    )
    questions.set(key, answer)
    return answer
  }

  /** The answers for both families; only one of them if the other does not arrive soon after it. */
  function askBoth(name: string): Promise<Answers> {
    return new Promise((settled) => {
      const answers: Answers = {}
      let stop = () => {}
      const see = (family: keyof Answers) => (answer: Answer) => {
        answers[family] = answer
        if (answers.v4 && answers.v6) {
          stop()
          settled(answers)
          return
        }
        stop = clock.after(RESOLUTION_DELAY_MS, () => {
          if (questions.size <= MAX_OPEN_QUESTIONS && isEnough(family, answer, canReach))
            settled({ [family]: answer })
        })
      }
      void ask(4, name).then(see('v4'))
      void ask(6, name).then(see('v6'))
    })
  }

  async function query(name: string): Promise<readonly string[]> {
    const { v4, v6 } = await askBoth(name)
    const found = interleave(v4?.addresses ?? [], v6?.addresses ?? [])
    if (found.length === 0) throw mostTelling(v4?.error, v6?.error)
    return found
  }

  async function find(hostname: string, isWanted: () => boolean): Promise<ResolvedName> {
    const name = hostname.replace(/\.$/, '')
    // RFC 6761: never a question for DNS.
    if (/(^|\.)localhost$/.test(name)) return { addresses: ['127.0.0.1', '::1'], isMachineName: false }
    if (!options.machineNames || hostname !== name)
      return { addresses: await query(name), isMachineName: false }
    const asked = answerOf(() => query(name))
    if (await isFoundSoon(asked)) return { addresses: (await asked).addresses, isMachineName: false }
    return await findEither(name, asked, isWanted)
  }

  /** False if the answer is anything else, or does not arrive in time. */
  function isFoundSoon(asked: Promise<Answer>): Promise<boolean> {
    return new Promise((settled) => {
      const stop = clock.after(SILENCE_MS, () => settled(false))
      void asked.then(({ error }) => {
        stop()
        settled(error === undefined)
      })
    })
  }

  /** What is found first: the name as written, or a name of the machine. @throws the error of the name as written */
  async function findEither(
    name: string,
    asked: Promise<Answer>,
    isWanted: () => boolean,
  ): Promise<ResolvedName> {
    let isFound = false
    const asWritten = asked.then(({ addresses, error }) => {
      if (error !== undefined) throw error
      isFound = true
      return { addresses, isMachineName: false as const }
    })
    const onMachine = findOnMachine(name, asked, () => isWanted() && !isFound).then((addresses) => {
      if (!addresses) throw new Error('the machine does not know the name')
      return { addresses, isMachineName: true as const, asWritten: asked }
    })
    try {
      return await Promise.any([asWritten, onMachine])
    } catch {
      return await asWritten
    }
  }

  /** Undefined if the machine does not know the name either, or nobody needs it any more. */
  async function findOnMachine(
    name: string,
    asked: Promise<Answer>,
    isWanted: () => boolean,
  ): Promise<readonly string[] | undefined> {
    const { hosts, search, ndots } = (await server.machineNames?.()) ?? NO_NAMES
    const known = hosts.get(name)
    if (known) return known.slice(0, MAX_ADDRESSES)
    const isShort = name.split('.').length <= ndots
    if (!isShort && !isNotFound((await asked).error)) return undefined
    const names = search.map((domain) => `${name}.${domain}`)
    for (const full of names.filter(({ length }) => length <= MAX_NAME_LENGTH)) {
      // A domain whose server is in trouble does not hide the names of the next one.
      const { addresses } = isWanted() ? await answerOf(() => query(full)) : NO_ANSWER
      if (addresses.length > 0) return addresses
    }
    return undefined
  }

  return async (hostname, signal) => {
    let one = running.get(hostname)
    if (!one) {
      const started: Running = {
        result: Promise.resolve({ addresses: [], isMachineName: false }),
        waiting: 0,
      }
      started.result = find(hostname, () => started.waiting > 0).finally(() => {
        if (running.get(hostname) === started) running.delete(hostname)
      })
      running.set(hostname, started)
      one = started
    }
    const joined = one
    joined.waiting += 1
    const leave = () => {
      joined.waiting -= 1
      // It will not look any further, so nobody may join it.
      if (joined.waiting === 0 && running.get(hostname) === joined) running.delete(hostname)
    }
    signal?.addEventListener('abort', leave, { once: true })
    try {
      return await joined.result
    } finally {
      signal?.removeEventListener('abort', leave)
    }
  }
}

/** Never rejects. */
async function answerOf(question: () => Promise<readonly string[]>): Promise<Answer> {
  try {
    return { addresses: await question() }
  } catch (error) {
    return { addresses: [], error }
  }
}

/**
 * Whether one answer is enough if the other is late. "No such name" is about both families; if it answers the question for IPv6, it may
 * come from a server that knows IPv4 only (RFC 4074 §4.2).
 */
function isEnough(
  family: keyof Answers,
  { addresses, error }: Answer,
  canReach: (address: string) => boolean,
): boolean {
  if (addresses.length > 0) return addresses.some(canReach)
  return family === 'v4' && codeOf(error) === 'ENOTFOUND'
}

/** A machine without an address of a family can send nothing to the addresses of this family. */
function isReachable(address: string): boolean {
  if (addressClass(address) === 'loopback') return true
  const families = Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .filter((own) => !own.internal && addressClass(own.address) !== 'never')
    .map((own) => own.family)
  return families.length === 0 || families.includes(isIP(address) === 6 ? 'IPv6' : 'IPv4')
}

/** A server answered that it cannot answer; another one may. */
const SERVER_FAILED: ReadonlySet<unknown> = new Set(['ESERVFAIL', 'EREFUSED', 'ENOTIMP', 'EFORMERR'])

type Ask = (queries: dns.Resolver) => Promise<string[]>

/** @param addresses of the servers, with ports if these differ from 53. Default: those of the machine. */
export function createNameServer(addresses?: readonly string[]): NameServer {
  const all = createQueries(addresses)
  const servers = all.getServers()
  // Node goes on to the next server only if one is silent.
  const single = servers.length > 1 ? servers.map((server) => createQueries([server], 1)) : []
  const ask = (question: Ask) =>
    question(all).catch((error: unknown) => {
      if (SERVER_FAILED.has(codeOf(error))) return askInTurn(single, question, error)
      throw error
    })
  return {
    resolve4: (hostname) => ask((queries) => queries.resolve4(hostname)),
    resolve6: (hostname) => ask((queries) => queries.resolve6(hostname)),
    async machineNames() {
      const [hosts, config] = await Promise.all(['/etc/hosts', '/etc/resolv.conf'].map(textOf))
      const text = config ?? ''
      return { hosts: parseHosts(hosts ?? ''), search: parseSearchList(text), ndots: parseNdots(text) }
    },
  }
}

/** What the first server without a problem says. @throws failure if all have one */
async function askInTurn(
  servers: readonly dns.Resolver[],
  question: Ask,
  failure: unknown,
): Promise<string[]> {
  for (const queries of servers) {
    try {
      return await question(queries)
    } catch (error) {
      if (isNotFound(error)) throw error
    }
  }
  throw failure
}

function createQueries(addresses: readonly string[] | undefined, tries = QUERY_TRIES): dns.Resolver {
  const queries = new dns.Resolver({ timeout: QUERY_TIMEOUT_MS, tries })
  if (addresses) queries.setServers(addresses)
  return queries
}

const NO_NAMES: MachineNames = { hosts: new Map(), search: [], ndots: 1 }
const NO_ANSWER: Answer = { addresses: [] }
const MAX_SEARCH_DOMAINS = 32
const MAX_HOSTS_LENGTH = 2 ** 20

/** Empty if there is no such file, or if it cannot be read. */
async function textOf(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch {
    return ''
  }
}

/** @param text of a hosts file: an address and its names in each line */
export function parseHosts(text: string): Map<string, string[]> {
  const hosts = new Map<string, string[]>()
  for (const line of text.slice(0, MAX_HOSTS_LENGTH).split('\n')) {
    const [address = '', ...names] = (line.split('#')[0] ?? '').trim().split(/\s+/)
    if (isIP(address) === 0) continue
    for (const name of names) {
      const key = name.toLowerCase()
      hosts.set(key, [...(hosts.get(key) ?? []), address])
    }
  }
  return hosts
}

/** @param text of a resolv.conf, whose last `search` or `domain` line counts */
export function parseSearchList(text: string): string[] {
  const [domains] = text
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([keyword]) => keyword === 'search' || keyword === 'domain')
    .map((words) => words.slice(1))
    .reverse()
  return (domains ?? [])
    .map((domain) => domain.toLowerCase().replace(/\.$/, ''))
    .filter((domain) => domain !== '')
    .slice(0, MAX_SEARCH_DOMAINS)
}

const MAX_NDOTS = 15

/** @param text of a resolv.conf, whose last `ndots` counts */
export function parseNdots(text: string): number {
  const given = [...text.matchAll(/^[ \t]*options[ \t](.*)$/gm)].flatMap(([, options = '']) =>
    [...options.matchAll(/(?:^|\s)ndots:(\d+)/g)].map(([, value]) => Number(value)),
  )
  return Math.min(given.at(-1) ?? NO_NAMES.ndots, MAX_NDOTS)
}

/** Alternates the families, so that a machine without one of them soon gets to the other. */
function interleave(v4: readonly string[], v6: readonly string[]): string[] {
  const mixed: string[] = []
  for (let i = 0; i < Math.max(v4.length, v6.length); i += 1) {
    for (const address of [v4[i], v6[i]]) if (address !== undefined) mixed.push(address)
  }
  return mixed.slice(0, MAX_ADDRESSES)
}

/** "No such name" only if neither family failed in another way. */
function mostTelling(...errors: unknown[]): unknown {
  const given = errors.filter((error) => error !== undefined)
  const trouble = given.find((error) => !isNotFound(error))
  return trouble ?? given[0] ?? Object.assign(new Error('no address'), { code: 'ENOTFOUND' })
}

/** The name does not exist, or has no addresses: no name server had a problem. */
export function isNotFound(error: unknown): boolean {
  return NOT_FOUND.has(codeOf(error))
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}
