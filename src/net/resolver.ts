/**
 * Names to addresses. DNS is asked directly, not through getaddrinfo: that runs on two threads of the process,
 * which a few names with a slow server would keep from all others. Names are asked for as they are written,
 * without the machine's search list.
 */
import { promises as dns } from 'node:dns'

/** Addresses of a name, at least one. @throws an error with the code of node:dns (`ENOTFOUND`, `ETIMEOUT`, ...) */
export type Resolve = (hostname: string) => Promise<readonly string[]>

/** Single questions; the part that tests replace. Each rejects with a code of node:dns. */
export type NameServer = {
  resolve4(hostname: string): Promise<string[]>
  resolve6(hostname: string): Promise<string[]>
  /** The machine's own way: /etc/hosts, search list. */
  lookup(hostname: string): Promise<string[]>
}

export type ResolverOptions = {
  /** Whether names that DNS does not have are looked up the machine's way: for receivers inside the cluster. */
  machineNames: boolean
  server?: NameServer
}

const ATTEMPT_TIMEOUT_MS = 2000
const ATTEMPTS = 2
/** Look-ups the machine's way at a time; they share the process's threads with file access. */
const MAX_LOOKUPS = 2
const MAX_ADDRESSES = 6

const LOOPBACK = ['127.0.0.1', '::1'] as const
const NOT_FOUND: ReadonlySet<string> = new Set(['ENOTFOUND', 'ENODATA'])

export function createResolver(options: ResolverOptions): Resolve {
  const server = options.server ?? systemNameServer()
  const lookup = limitConcurrency(MAX_LOOKUPS, server.lookup)
  const waiting = new Map<string, Promise<readonly string[]>>()

  async function ask(hostname: string): Promise<readonly string[]> {
    // RFC 6761: never a question for DNS.
    if (/(^|\.)localhost$/.test(hostname)) return LOOPBACK
    const [v4, v6] = await Promise.allSettled([server.resolve4(hostname), server.resolve6(hostname)])
    const found = interleave(answersOf(v4), answersOf(v6))
    if (found.length > 0) return found
    const error = failureOf(v4, v6)
    if (!options.machineNames || !NOT_FOUND.has(codeOf(error))) throw error
    const known = await lookup(hostname)
    if (known.length === 0) throw error
    return known.slice(0, MAX_ADDRESSES)
  }

  // One question at a time per name: a burst to one receiver is one question.
  return (hostname) => {
    const running = waiting.get(hostname)
    if (running) return running
    const answer = ask(hostname).finally(() => waiting.delete(hostname))
    waiting.set(hostname, answer)
    return answer
  }
}

function systemNameServer(): NameServer {
  const resolver = new dns.Resolver({ timeout: ATTEMPT_TIMEOUT_MS, tries: ATTEMPTS })
  return {
    resolve4: (hostname) => resolver.resolve4(hostname),
    resolve6: (hostname) => resolver.resolve6(hostname),
    lookup: async (hostname) => (await dns.lookup(hostname, { all: true })).map(({ address }) => address),
  }
}

/** Both families in turn, so that a machine without one of them soon comes to the other. */
function interleave(v4: readonly string[], v6: readonly string[]): string[] {
  const mixed: string[] = []
  for (let i = 0; i < Math.max(v4.length, v6.length); i += 1) {
    for (const address of [v4[i], v6[i]]) if (address !== undefined) mixed.push(address)
  }
  return mixed.slice(0, MAX_ADDRESSES)
}

function answersOf(result: PromiseSettledResult<string[]>): string[] {
  return result.status === 'fulfilled' ? result.value : []
}

/** The failure that says most: "there is no such name" only when neither family had another trouble. */
function failureOf(...results: PromiseSettledResult<string[]>[]): unknown {
  const errors = results.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : []))
  const trouble = errors.find((error) => !NOT_FOUND.has(codeOf(error)))
  return trouble ?? errors[0] ?? Object.assign(new Error('no address'), { code: 'ENOTFOUND' })
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}

function limitConcurrency<T>(max: number, run: (name: string) => Promise<T>): (name: string) => Promise<T> {
  let running = 0
  const queue: (() => void)[] = []
  return async (name) => {
    if (running >= max) await new Promise<void>((resolve) => queue.push(resolve))
    else running += 1
    try {
      return await run(name)
    } finally {
      const next = queue.shift()
      if (next) next()
      else running -= 1
    }
  }
}
