/**
 * An API server in trouble: a share of its requests fails at random with a seed, each in one of the ways in which requests fail.
 * Requests are retried like the adapter does.
 */

import type { ResourceType } from '../../src/apis/meta.ts'
import { ApiError } from '../../src/kube/client.ts'
import type { KubernetesClient } from '../../src/kube/resources.ts'
import { type FailedAttempt, retryWait } from '../../src/kube/transport.ts'
import { SeededRandom } from '../chaos/seeded-random.ts'

export type Storm = {
  api: KubernetesClient
  /** Requests so far, by `verb plural name`; a list has no name. */
  readonly requests: ReadonlyMap<string, number>
  /** Share of all requests and of all watch events, from 0 to 1. */
  share: number
}

type Failure = Pick<FailedAttempt, 'error' | 'fate'> & { timedOut?: true }
type Call = { verb: string; type: ResourceType; name?: string; asksForVersion?: boolean }

const ASKED_MS = 20
const TIMEOUT_MS = 30
/** The adapter's own waits grow to most of a second. */
const LONGEST_WAIT_MS = 100

/** @param options.share of requests that fail; may be changed while it runs */
export function stormyApi(inner: KubernetesClient, options: { seed: number; share: number }): Storm {
  const random = new SeededRandom(options.seed)
  const requests = new Map<string, number>()
  const storm: Storm = { api: inner, requests, share: options.share }
  const count = ({ verb, type, name = '' }: Call) => {
    const key = `${verb} ${type.plural} ${name}`.trim()
    requests.set(key, (requests.get(key) ?? 0) + 1)
  }
  const send = async <T>(call: Call, run: () => Promise<T>): Promise<T> => {
    const repeatable = call.verb === 'get' || call.verb === 'list'
    for (let attempt = 1; ; attempt += 1) {
      count(call)
      if (!random.chance(storm.share)) return await run()
      const { timedOut, ...failure } = await fail(random, call, run)
      const wait = timedOut ? undefined : retryWait({ ...failure, repeatable, attempt }, random.fraction())
      if (wait === undefined) throw failure.error
      await sleep(Math.min(LONGEST_WAIT_MS, wait))
    }
  }
  storm.api = {
    ...inner,
    get: (type, ref) => send({ verb: 'get', type, name: ref.name }, () => inner.get(type, ref)),
    list: (type, query, from) => send({ verb: 'list', type }, () => inner.list(type, query, from)),
    create: (type, object, how) =>
      send({ verb: 'create', type, name: object.metadata.name }, () => inner.create(type, object, how)),
    patch: (type, ref, patch: Patch, how) => {
      const asksForVersion = patch.metadata?.resourceVersion !== undefined
      const call = { verb: 'patch', type, name: ref.name, asksForVersion }
      return send(call, () => inner.patch(type, ref, patch, how))
    },
    delete: (type, ref, precondition) =>
      send({ verb: 'delete', type, name: ref.name }, () => inner.delete(type, ref, precondition)),
    async *watch(type, query, version, signal) {
      count({ verb: 'watch', type })
      if (random.chance(storm.share)) throw tooMany()
      for await (const events of inner.watch(type, query, version, signal)) {
        if (random.chance(storm.share)) throw new ApiError('Unavailable', 'the stream broke')
        yield events
      }
    },
  }
  return storm
}

type Patch = { metadata?: { resourceVersion?: string } }

async function fail<T>(random: SeededRandom, call: Call, run: () => Promise<T>): Promise<Failure> {
  const kind = random.fraction()
  if (kind < 0.3) return { error: tooMany(), fate: 'not done' }
  if (kind < 0.6) return { error: overloaded(), fate: 'unknown' }
  // Only a request with a version can conflict.
  if (call.asksForVersion && kind < 0.75) return { error: conflict(), fate: 'not done' }
  const error = new ApiError('Unavailable', 'no answer')
  // It may have taken effect nevertheless.
  if (kind < 0.9) await run().catch(() => undefined)
  if (kind < 0.9) return { error, fate: 'unknown' }
  await sleep(TIMEOUT_MS)
  return { error, fate: 'unknown', timedOut: true }
}

function tooMany(): ApiError {
  return new ApiError('TooManyRequests', 'too many requests', { status: 429, retryAfterMs: ASKED_MS })
}

function overloaded(): ApiError {
  return new ApiError('Unavailable', 'the server is overloaded', { status: 503 })
}

function conflict(): ApiError {
  return new ApiError('Conflict', 'the object has been modified', { status: 409 })
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
