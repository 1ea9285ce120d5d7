import { describe, expect, it } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { sortableName } from '../../apis/ids.ts'
import { packedName } from './line-table.ts'
import { Lines } from './lines.ts'
import { logPage } from './queries.ts'

const MANY = 20_000
const ENDPOINT = { namespace: 'org', name: 'billing', uid: 'uid' }
const START = Date.UTC(2026, 0, 31, 12)

/** The rare type shares its bit with the common one, so that every block has to be looked into. */
function typeOf(number: number): string {
  if (number === 100) return 'test.rare'
  return number > 0 && number < 32 ? `test.other-${number}` : 'test.common'
}

function manyLines(): Lines {
  const lines = new Lines(MANY, () => undefined)
  for (let number = 0; number < MANY; number += 1) {
    const id = packedName(nameAt(number))
    const log = lines.logs.findOrAdd(ENDPOINT.namespace, ENDPOINT.uid)
    if (id) lines.add(log, id, { type: typeOf(number), bodyBytes: 2, sharesBody: false })
  }
  return lines
}

function nameAt(number: number): string {
  return sortableName(START + number, new Uint8Array(10))
}

/** Each look at it finds that time has passed. */
class BusyClock extends FakeClock {
  override monotonic(): number {
    this.advance(20)
    return super.monotonic()
  }
}

describe('a page of a long log', () => {
  it('is put together in turns, in which others are served', async () => {
    const lines = manyLines()
    let turns = 0
    let looking = true
    const count = () => {
      turns += 1
      if (looking) setImmediate(count)
    }
    setImmediate(count)
    const page = await logPage(lines, ENDPOINT, { limit: 5, eventType: 'test.rare' }, new BusyClock())
    looking = false
    expect(page.deliveries.map(({ deliveryId }) => deliveryId)).toEqual([`msg_${nameAt(100)}`])
    expect(turns).toBeGreaterThanOrEqual(Math.floor(MANY / 4096) - 1)
  })

  it('goes on where it was although the line there has gone in its turn', async () => {
    const lines = manyLines()
    const log = lines.logs.findOrAdd(ENDPOINT.namespace, ENDPOINT.uid)
    setImmediate(() => {
      for (let number = 5000; number < MANY; number += 1) {
        const id = packedName(nameAt(number))
        if (id) lines.remove(log.lines.find(id))
      }
    })
    const page = await logPage(lines, ENDPOINT, { limit: 5, eventType: 'test.rare' }, new BusyClock())
    expect(page.deliveries).toHaveLength(1)
  })

  it('is empty where the log has gone in its turn', async () => {
    const lines = manyLines()
    const log = lines.logs.findOrAdd(ENDPOINT.namespace, ENDPOINT.uid)
    setImmediate(() => {
      for (let number = 0; number < MANY; number += 1) {
        const id = packedName(nameAt(number))
        if (id) lines.remove(log.lines.find(id))
      }
    })
    const page = await logPage(lines, ENDPOINT, { limit: 5, eventType: 'test.rare' }, new BusyClock())
    expect(page).toEqual({ deliveries: [] })
  })
})
