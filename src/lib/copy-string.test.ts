import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { copyString } from './text.ts'

/** Bytes in use after a collection. */
function heapUsed(): number {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  collect()
  return process.memoryUsage().heapUsed
}

/** Cuts an id out of each of 64 texts of 256 KiB. */
function ids(keep: (id: string) => string): string[] {
  return Array.from({ length: 64 }, (_, i) => keep(`id-${i}-${'x'.repeat(256 * 1024)}`.slice(0, 26)))
}

test('a text of its own does not keep what it was cut out of', () => {
  const before = heapUsed()
  const kept = ids(copyString)
  expect(heapUsed() - before).toBeLessThan(2 * 2 ** 20)
  expect(kept).toHaveLength(64)
})

test('it is the same text', () => {
  expect(copyString('7zzé€𝄞')).toBe('7zzé€𝄞')
})
