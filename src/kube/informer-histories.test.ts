import { describe, expect, it } from 'vitest'
import type { FakeApi } from '../../test/support/fake-api.ts'
import { settle } from '../../test/support/fake-clock.ts'
import { fc } from '../../test/support/fast-check.ts'
import {
  down,
  gone,
  type ReflectorBed,
  startReflector,
  type Thing,
} from '../../test/support/reflector-bed.ts'

const HISTORIES = Number(process.env.REFLECTOR_HISTORIES ?? 150)
const LIMIT_MS = 60_000 + HISTORIES * 100

type Step =
  | { do: 'put'; name: string; silently: boolean; twice: boolean; again: boolean }
  | { do: 'remove'; name: string; silently: boolean; twice: boolean }
  | { do: 'repeat' | 'removeInList' | 'putInList'; name: string }
  | { do: 'cut' | 'end' | 'gone' | 'bookmark' | 'failList' | 'compare' | 'wait' }

const name = fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f')
const rarely = fc.integer({ min: 0, max: 5 }).map((number) => number === 0)
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('put' as const),
      name,
      silently: rarely,
      twice: rarely,
      again: rarely,
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('remove' as const), name, silently: rarely, twice: rarely }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom('repeat' as const, 'removeInList' as const, 'putInList' as const),
      name,
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom(
        'cut' as const,
        'end' as const,
        'gone' as const,
        'bookmark' as const,
        'failList' as const,
        'compare' as const,
        'wait' as const,
      ),
    }),
  },
)

describe('a reflector whose watch forgets, repeats, breaks and expires', () => {
  it(
    'never goes back, and agrees with the store after the next full list',
    async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
          const world = startReflector()
          await world.reflector.synced
          for (const each of steps) await take(world, each)
          world.api.listFaults.length = 0
          world.api.meanwhile.length = 0
          await world.clock.elapse(34 * 60_000)
          const { reflector, consumer, api } = world
          const versions = (things: Iterable<Thing>) => [...things].map((thing) => thing.version).sort()
          const truth = [...api.objects.values()]
            .map((object) => Number(object.metadata.resourceVersion))
            .sort()
          expect(versions(consumer.view.values())).toEqual(truth)
          expect(consumer.wrong).toEqual([])
          await reflector.stop()
        }),
        { numRuns: HISTORIES },
      )
    },
    LIMIT_MS,
  )
})

async function take({ api, clock }: ReflectorBed, step: Step): Promise<void> {
  const faults = { cut: down, end: 'end', gone } as const
  if (step.do === 'put') api.put(step.name, step)
  else if (step.do === 'remove') api.remove(step.name, step)
  else if (step.do === 'repeat') repeat(api, step.name)
  else if (step.do === 'removeInList') api.meanwhile.push(() => api.remove(step.name))
  else if (step.do === 'putInList') api.meanwhile.push(() => api.put(step.name))
  else if (step.do === 'bookmark') api.bookmark()
  else if (step.do === 'failList') api.listFaults.push(undefined, down)
  else if (step.do === 'compare') await clock.elapse(31 * 60_000)
  else if (step.do === 'wait') await clock.elapse(500)
  else api.endWatches(faults[step.do])
  await settle(1)
}

/** An event of long ago comes again, out of order; perhaps of an object that is gone. */
function repeat(api: FakeApi, name: string): void {
  const object = api.objects.get(name) ?? { metadata: { name, namespace: 'org', resourceVersion: '101' } }
  const metadata = {
    ...object.metadata,
    resourceVersion: String(Number(object.metadata.resourceVersion) - 1),
  }
  api.tell({ type: 'MODIFIED', object: { ...object, metadata } })
}
