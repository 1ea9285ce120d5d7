import { describe, expect, it } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { LineSplitter, LineTooLong } from './watch-stream.ts'

/** Cuts bytes at these places. */
function cut(bytes: Buffer, places: number[]): Buffer[] {
  const ends = [...new Set(places.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b)
  return [...ends, bytes.length].map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end))
}

describe('a line splitter', () => {
  it('gives the same lines however the bytes were cut, characters included', () => {
    const line = fc.string({ unit: 'grapheme', maxLength: 40 }).map((text) => text.replaceAll('\n', ' '))
    fc.assert(
      fc.property(
        fc.array(line, { maxLength: 20 }),
        fc.array(fc.nat(), { maxLength: 30 }),
        (lines, places) => {
          const splitter = new LineSplitter(10_000)
          const bytes = Buffer.from(lines.map((each) => `${each}\n`).join(''))
          const found = cut(bytes, places).flatMap((chunk) => splitter.push(chunk))
          expect(found.map((each) => each.toString('utf8'))).toEqual(lines.filter((each) => each !== ''))
          expect(splitter.pending).toBe(0)
        },
      ),
    )
  })

  it('keeps what has no newline yet', () => {
    const splitter = new LineSplitter(100)
    expect(splitter.push(Buffer.from('one\ntw'))).toEqual([Buffer.from('one')])
    expect(splitter.pending).toBe(2)
    expect(splitter.push(Buffer.from('o\n'))).toEqual([Buffer.from('two')])
  })

  it('refuses a line over the limit before it has all of it', () => {
    const splitter = new LineSplitter(10)
    splitter.push(Buffer.from('12345'))
    expect(() => splitter.push(Buffer.from('678901'))).toThrow(LineTooLong)
  })

  it('looks at each byte once: a line in many small chunks costs about as much as in one', () => {
    const chunks = Array.from({ length: 40_000 }, () => Buffer.from('x'.repeat(100)))
    const splitter = new LineSplitter(5_000_000)
    const started = process.cpuUsage()
    for (const chunk of chunks) splitter.push(chunk)
    const [line] = splitter.push(Buffer.from('\n'))
    const { user } = process.cpuUsage(started)
    expect(line?.length).toBe(4_000_000)
    // Joining at each chunk would copy 80 GB.
    expect(user / 1_000).toBeLessThan(3_000)
  })
})
