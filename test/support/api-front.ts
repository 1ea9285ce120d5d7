/**
 * A proxy before a real API server, like a load balancer: it counts requests, answers in the server's place if a test asks for
 * it, and can hold back watch events.
 *
 *   const front = await startApiFront(inject('adminAccess'))
 *   const davit = await startDavit('busy', { cluster: { access: inject('adminAccess'), kubeconfigPath: front.kubeconfigPath } })
 *   front.answer(({ method, path }) => method === 'POST' && path.endsWith('/deliverysegments'), tooBusy(2))
 *
 * A request with a token is passed on with it; a request without one gets the identity of the administrator.
 */
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { Agent, request } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Transform } from 'node:stream'
import type { AdminAccess } from '../../playground/control-plane/protocol.ts'

export type FrontRequest = {
  method: string
  /** Without the query. */
  path: string
  isWatch: boolean
  /** Arrival of its headers, in milliseconds of `performance.now()`. */
  at: number
  /** The status that the client received; absent before the answer. */
  status?: number
}

export type FrontAnswer = { status: number; headers?: Record<string, string>; body: string } | 'hang'

type Matches = (request: FrontRequest) => boolean
type Act = () => Promise<void>
type Rule = { matches: Matches; left: number } & ({ answer: FrontAnswer } | { before: Act } | { after: Act })

export type HeldWatches = {
  /** Lets all held events through. */
  release(): void
  /** Lets the oldest held event through, and keeps holding the rest. */
  step(): void
}

export type ApiFront = Awaited<ReturnType<typeof startApiFront>>

export async function startApiFront(access: AdminAccess) {
  const folder = await mkdtemp(join(tmpdir(), 'davit-front-'))
  const agent = new Agent({ ca: access.caPem, cert: access.certPem, key: access.keyPem, keepAlive: true })
  const bare = new Agent({ ca: access.caPem, keepAlive: true })
  const requests: FrontRequest[] = []
  const rules: Rule[] = []
  const watches = new Map<ServerResponse, FrontRequest>()
  let held: { matches: Matches; turn: PromiseWithResolvers<void> } | undefined

  const pass = (incoming: IncomingMessage, response: ServerResponse, seen: FrontRequest, after?: Act) => {
    const { method, url = '/', headers } = incoming
    const outgoing = request(
      new URL(url, access.server),
      { method, headers, agent: headers.authorization === undefined ? agent : bare },
      async (answer) => {
        await after?.()
        seen.status = answer.statusCode ?? 0
        response.writeHead(seen.status, answer.headers)
        // The headers of a watch are sent before anything has happened.
        response.flushHeaders()
        answer.on('error', () => response.destroy())
        if (seen.isWatch)
          answer.pipe(gate(() => (held?.matches(seen) ? held.turn.promise : undefined))).pipe(response)
        else answer.pipe(response)
      },
    )
    outgoing.on('error', () => response.destroy())
    if (seen.isWatch) watches.set(response, seen)
    response.on('close', () => {
      watches.delete(response)
      outgoing.destroy()
    })
    incoming.pipe(outgoing)
  }
  const server = createServer(async (incoming, response) => {
    const { pathname, searchParams } = new URL(incoming.url ?? '/', access.server)
    const isWatch = /^(1|true)$/.test(searchParams.get('watch') ?? '')
    const seen: FrontRequest = {
      method: incoming.method ?? '',
      path: pathname,
      isWatch,
      at: performance.now(),
    }
    requests.push(seen)
    const rule = rules.find(({ left, matches }) => left > 0 && matches(seen))
    if (!rule) return pass(incoming, response, seen)
    rule.left -= 1
    if ('after' in rule) return pass(incoming, response, seen, rule.after)
    if ('before' in rule) {
      await rule.before()
      return pass(incoming, response, seen)
    }
    incoming.resume()
    if (rule.answer === 'hang') return
    seen.status = rule.answer.status
    response.writeHead(seen.status, rule.answer.headers).end(rule.answer.body)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const writeKubeconfig = async (name: string, token?: string) => {
    const path = join(folder, name)
    await writeFile(path, JSON.stringify(kubeconfigOf(url, token)), { mode: 0o600 })
    return path
  }
  return {
    /** All requests, in the order of their arrival. */
    requests: requests as readonly FrontRequest[],
    /** The kubeconfig of the administrator. */
    kubeconfigPath: await writeKubeconfig('admin'),
    /** Writes a kubeconfig for the holder of a token. @returns its path */
    kubeconfigFor: (token: string) => writeKubeconfig(`token-${requests.length}`, token),
    /** Answers the next `times` matching requests. @returns a function that ends the rule */
    answer(matches: Matches, answer: FrontAnswer, times = 1): () => void {
      const rule = { matches, answer, left: times }
      rules.push(rule)
      return () => {
        rule.left = 0
      }
    },
    /** Passes on the next matching request after `act` is done. */
    before(matches: Matches, act: Act): void {
      rules.push({ matches, before: act, left: 1 })
    },
    /** Answers the next matching request after `act`, which gets the answer first, is done. */
    after(matches: Matches, act: Act): void {
      rules.push({ matches, after: act, left: 1 })
    },
    /** Holds back the events of matching watches from now on, in order. */
    holdWatches(matches: Matches): HeldWatches {
      const holding = { matches, turn: Promise.withResolvers<void>() }
      held = holding
      const goOn = () => {
        const { turn } = holding
        holding.turn = Promise.withResolvers()
        turn.resolve()
      }
      const release = () => {
        if (held === holding) held = undefined
        goOn()
      }
      return { release, step: goOn }
    },
    /** Breaks the open watches that match. */
    cutWatches(matches: Matches): void {
      for (const [response, seen] of watches) if (matches(seen)) response.destroy()
    },
    async stop(): Promise<void> {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      agent.destroy()
      bare.destroy()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** The answer of an overloaded API server. */
export function tooBusy(retryAfterSeconds: number): FrontAnswer {
  const status = { kind: 'Status', apiVersion: 'v1', status: 'Failure', reason: 'TooManyRequests', code: 429 }
  return {
    status: 429,
    headers: { 'content-type': 'application/json', 'retry-after': String(retryAfterSeconds) },
    body: JSON.stringify({ ...status, message: 'too many requests, please try again later' }),
  }
}

/** Delays each chunk until the promise of `waitFor` resolves. */
function gate(waitFor: () => Promise<void> | undefined): Transform {
  return new Transform({
    transform(chunk, _encoding, done) {
      const wait = waitFor()
      if (wait) void wait.then(() => done(null, chunk))
      else done(null, chunk)
    },
  })
}

function kubeconfigOf(server: string, token: string | undefined): object {
  return {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'front', cluster: { server, 'insecure-skip-tls-verify': true } }],
    users: [{ name: 'test', user: token === undefined ? {} : { token } }],
    contexts: [{ name: 'front', context: { cluster: 'front', user: 'test' } }],
    'current-context': 'front',
  }
}
