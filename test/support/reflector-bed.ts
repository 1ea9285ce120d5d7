import { ApiError, type RawObject } from '../../src/kube/client.ts'
import { Informer, type InformerOptions } from '../../src/kube/informer.ts'
import { FakeApi } from './fake-api.ts'
import { FakeClock, fixedRandom } from './fake-clock.ts'
import { NO_RUNTIME_METRICS } from './no-metrics.ts'

export type Thing = { key: string; uid: string; version: number }

const type = { group: 'test.dev', version: 'v1', plural: 'things', namespaced: true }
export const down = new ApiError('Unavailable', 'the connection broke')
export const gone = new ApiError('Gone', 'too old', { status: 410 })

function decode({ metadata, poison }: RawObject): Thing | undefined {
  if (poison === 'throw') throw new Error('cannot be read')
  if (poison === 'undefined') return undefined
  const { namespace, name, uid, resourceVersion } = metadata
  return { key: `${namespace}/${name}`, uid: uid ?? '', version: Number(resourceVersion) }
}

/** Builds a view from the handler's calls, and checks them. */
export class Consumer {
  readonly view = new Map<string, Thing>()
  readonly calls: string[] = []
  readonly wrong: string[] = []

  applied(thing: Thing, previous?: Thing): void {
    const held = this.view.get(thing.key)
    this.calls.push(`+${thing.key}@${thing.version}`)
    if (held?.uid !== previous?.uid) this.wrong.push(`previous of ${thing.key}`)
    if (held && held.uid !== thing.uid) this.wrong.push(`${thing.key} was not deleted before`)
    if (held && held.version >= thing.version) this.wrong.push(`${thing.key} went back`)
    this.view.set(thing.key, thing)
  }

  deleted(last: Thing): void {
    this.calls.push(`-${last.key}`)
    if (this.view.get(last.key)?.uid !== last.uid) this.wrong.push(`${last.key} was not there`)
    this.view.delete(last.key)
  }
}

export type ReflectorBed = ReturnType<typeof startReflector>

/** An informer on an API in memory, with time that stands still. */
export function startReflector(options: Partial<InformerOptions<Thing>> = {}, api = new FakeApi()) {
  const clock = new FakeClock()
  const consumer = new Consumer()
  const lines: string[] = []
  const restarts: string[] = []
  const reported: unknown[] = []
  const say = (_event: string, message: string, fields?: Record<string, unknown>) => {
    lines.push(message)
    reported.push(fields)
  }
  const reflector = new Informer<Thing>(
    {
      type,
      decode,
      handler: {
        applied: (thing, previous) => consumer.applied(thing, previous),
        deleted: (last) => consumer.deleted(last),
      },
      ...options,
    },
    {
      api,
      clock,
      random: fixedRandom(0),
      log: { info: say, warn: say, error: say },
      metrics: { ...NO_RUNTIME_METRICS, watchRestarted: (_, reason) => void restarts.push(reason) },
    },
  ).start()
  return { api, clock, consumer, lines, reported, restarts, reflector }
}
