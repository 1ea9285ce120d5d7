import { beforeEach, describe, expect, it } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { formatBytes, reportPullProgress } from './pull.ts'

let clock: FakeClock
let lines: { message: string; fields: Record<string, unknown> | undefined }[]
let size: number

const log = {
  info: (_event: string, message: string, fields?: Record<string, unknown>) =>
    void lines.push({ message, fields }),
  warn: () => {},
  error: () => {},
}
const folder = { size: async () => size }

beforeEach(() => {
  clock = new FakeClock()
  lines = []
  size = 1_000_000
})

const follow = (total?: number) =>
  reportPullProgress({ clock, log }, { service: 'api', image: 'registry.test/api:1', folder, total })

describe('a pull', () => {
  it('tells how many bytes have come for its service, of how many, as long as more come', async () => {
    const end = follow(20_000_000)
    size += 3_500_000
    await clock.elapse(5000)
    await clock.elapse(5000)
    size += 8_000_000
    await clock.elapse(5000)
    expect(lines).toEqual([
      {
        message: 'pulled 3.5 MB of 20.0 MB',
        fields: { service: 'api', image: 'registry.test/api:1', bytes: 3_500_000, totalBytes: 20_000_000 },
      },
      {
        message: 'pulled 11.5 MB of 20.0 MB',
        fields: { service: 'api', image: 'registry.test/api:1', bytes: 11_500_000, totalBytes: 20_000_000 },
      },
    ])
    size += 500_000
    expect(await end()).toBe(12_000_000)
    expect(clock.pending).toBe(0)
  })

  it('of which nobody knows how large it is tells what has come', async () => {
    const end = follow()
    size += 2_000_000
    await clock.elapse(5000)
    expect(lines.map(({ message }) => message)).toEqual(['pulled 2.0 MB'])
    await end()
  })

  it('says nothing after its end', async () => {
    const end = follow()
    await end()
    size += 9_000_000
    await clock.elapse(60_000)
    expect(lines).toEqual([])
  })
})

it.each([
  [0, '0 bytes'],
  [999, '999 bytes'],
  [1000, '1.0 kB'],
  [12_345_678, '12.3 MB'],
  [5e9, '5.0 GB'],
  [5e15, '5000.0 TB'],
])('%d is %s', (bytes, want) => expect(formatBytes(bytes)).toBe(want))
