import { describe, expect, it } from 'vitest'
import { FakeClock } from '../../test/support/fake-clock.ts'
import { RushingClock } from '../../test/support/rushing-clock.ts'
import { deliverySegments } from '../apis/delivery-segment.ts'
import { ApiError, isApiError, type ListQuery, type Page } from './client.ts'
import { listIntoStore } from './list.ts'

/** A list of so many objects, each of whose pages takes its time. @returns the sizes that were asked for */
async function pagesOf(
  objects: number,
  given: { tookMs: number; limit?: number; largestPage?: number },
): Promise<number[]> {
  const clock = new FakeClock()
  const asked: number[] = []
  let taken = 0
  const list = async (_type: unknown, { limit = objects }: ListQuery, from?: string): Promise<Page> => {
    asked.push(limit)
    await clock.elapse(given.tookMs)
    const begin = Number(from ?? 0)
    const end = Math.min(objects, begin + limit)
    const items = Array.from({ length: end - begin }, (_, n) => ({ metadata: { name: `o${begin + n}` } }))
    return { items, resourceVersion: '7', ...(end < objects ? { continue: String(end) } : {}) }
  }
  const { limit, largestPage } = given
  const version = await listIntoStore({
    api: { list, get: () => Promise.reject(new Error('nobody asks')) },
    type: deliverySegments,
    query: limit === undefined ? {} : { limit },
    largestPage,
    store: { beginList: () => undefined, endList: () => [][Symbol.iterator](), abandonList: () => undefined },
    clock,
    take: () => {
      taken += 1
    },
    isOver: () => false,
  })
  expect([version, taken]).toEqual(['7', objects])
  return asked
}

describe('the pages of a list', () => {
  it('stay as they are asked for', async () => {
    expect(await pagesOf(150, { tookMs: 1, limit: 50 })).toEqual([50, 50, 50])
    expect(await pagesOf(150, { tookMs: 1000, limit: 50 })).toEqual([50, 50, 50])
    expect(await pagesOf(150, { tookMs: 1 })).toEqual([150])
  })

  it('grow while they are answered quickly', async () => {
    expect(await pagesOf(1000, { tookMs: 10, limit: 50, largestPage: 300 })).toEqual([
      50, 100, 200, 300, 300, 300,
    ])
  })

  it('shrink while they are answered slowly, and not to nothing', async () => {
    expect(await pagesOf(110, { tookMs: 300, limit: 50, largestPage: 300 })).toEqual([50, 25, 12, 10, 10, 10])
  })

  it('stay where they take neither', async () => {
    expect(await pagesOf(150, { tookMs: 100, limit: 50, largestPage: 300 })).toEqual([50, 50, 50])
  })

  it('are as before where they are answered just not quickly, and just not slowly', async () => {
    expect(await pagesOf(150, { tookMs: 50, limit: 50, largestPage: 300 })).toEqual([50, 50, 50])
    expect(await pagesOf(150, { tookMs: 250, limit: 50, largestPage: 300 })).toEqual([50, 50, 50])
  })

  it('shrink no further than they were asked for, where that is little', async () => {
    expect(await pagesOf(12, { tookMs: 300, limit: 4, largestPage: 300 })).toEqual([4, 4, 4])
  })

  it('have no size where none is asked for, however quickly they are answered', async () => {
    expect(await pagesOf(150, { tookMs: 1, largestPage: 300 })).toEqual([150])
  })
})

/** A list of two pages of two objects, where something happens on the way. @returns what the store and the taker were told */
async function told(given: { failAt?: number; times?: number; overAfter?: number }): Promise<string[]> {
  const clock = new RushingClock()
  let left = given.times ?? Number.POSITIVE_INFINITY
  const calls: string[] = []
  let over = false
  const note = (call: string) => {
    calls.push(call)
    if (calls.length === given.overAfter) over = true
  }
  const list = (_type: unknown, _query: ListQuery, from?: string): Promise<Page> => {
    note(`page ${from ?? 0}`)
    if (Number(from ?? 0) === given.failAt && left-- > 0)
      return Promise.reject(new ApiError('Unavailable', 'no answer'))
    const items = ['a', 'b'].map((name) => ({ metadata: { name: `${name}${from ?? 0}` } }))
    return Promise.resolve({ items, resourceVersion: '7', ...(from ? {} : { continue: '1' }) })
  }
  const listing = listIntoStore({
    api: { list, get: () => Promise.reject(new Error('nobody asks')) },
    type: deliverySegments,
    query: {},
    store: {
      beginList: () => note('begin'),
      *endList(at, complete) {
        yield note(`end ${at} ${complete}`)
      },
      abandonList: () => note('abandon'),
    },
    clock,
    take: ({ metadata }) => note(metadata.name),
    isOver: () => over,
    onVersion: (at) => note(`version ${at}`),
  })
  const version = await clock.rush(listing).catch((error: unknown) => {
    if (isApiError(error)) return error.kind
    throw error
  })
  return [...calls, String(version)]
}

describe('a list', () => {
  const WHOLE = ['page 0', 'version 7', 'begin', 'a0', 'b0', 'page 1', 'a1', 'b1', 'end 7 true']

  it('is handed over page by page', async () => {
    expect(await told({})).toEqual([...WHOLE, '7'])
  })

  it.each(WHOLE.map((what, index): [string, number] => [what, index + 1]))(
    'that is over after "%s" goes no further',
    async (_, overAfter) => {
      expect(await told({ overAfter })).toEqual([...WHOLE.slice(0, overAfter), 'undefined'])
    },
  )

  it('goes on with a page that fails a few times, and does not begin anew', async () => {
    for (const times of [1, 4]) {
      const again = Array(times).fill('page 1')
      expect(await told({ failAt: 1, times })).toEqual([
        ...WHOLE.slice(0, 5),
        ...again,
        ...WHOLE.slice(5),
        '7',
      ])
    }
  })

  it('that breaks off is abandoned', async () => {
    const pages = Array(5).fill('page 1')
    expect(await told({ failAt: 1 })).toEqual([...WHOLE.slice(0, 5), ...pages, 'abandon', 'Unavailable'])
  })

  it('whose first page fails is left to whoever knows when to begin again', async () => {
    expect(await told({ failAt: 0 })).toEqual(['page 0', 'abandon', 'Unavailable'])
  })

  it('does not ask again for a page that nobody wants any more', async () => {
    expect(await told({ failAt: 1, times: 1, overAfter: 6 })).toEqual([...WHOLE.slice(0, 6), 'Unavailable'])
  })

  it('that breaks off once it is over is not abandoned for the one that came after it', async () => {
    expect(await told({ failAt: 1, overAfter: 6 })).toEqual([...WHOLE.slice(0, 6), 'Unavailable'])
  })
})
