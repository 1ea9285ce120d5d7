/** What was looked at, and the secrets that were found there. */
import type { Evidence, Place } from './evidence.ts'
import { Scanner } from './scan/scanner.ts'
import type { SecretBook, Way } from './secret-book.ts'

export type Leak = { place: Place; way: Way; secret: string; form: string; around: string }
export type Findings = {
  leaks: Leak[]
  /** Bytes, by place. */
  looked: Map<Place, number>
  seconds: number
}

const AROUND = 60

export async function findLeaks(
  book: SecretBook,
  evidence: AsyncIterable<Evidence & { place: Place }>,
): Promise<Findings> {
  const begin = performance.now()
  const scanners = new Map((['kubectl', 'rest'] as const).map((way) => [way, new Scanner(book.all(way))]))
  const leaks: Leak[] = []
  const looked = new Map<Place, number>()
  for await (const { place, bytes, may } of evidence) {
    looked.set(place, (looked.get(place) ?? 0) + bytes.length)
    for (const [way, scanner] of scanners) {
      if (way === may) continue
      for (const { secret, form, at, length } of scanner.scan(bytes)) {
        const around = Buffer.from(bytes.subarray(Math.max(0, at - AROUND), at + length + AROUND))
        leaks.push({ place, way, secret: book.all(way)[secret] ?? '', form, around: around.toString() })
      }
    }
  }
  return { leaks, looked, seconds: (performance.now() - begin) / 1000 }
}
