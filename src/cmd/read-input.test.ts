import { Readable } from 'node:stream'
import { expect, it } from 'vitest'
import { InputTooLongError, readInput } from './node-helpers.ts'

it('reads all of it, whatever it comes in', async () => {
  const bytes = Buffer.from('gr\u00fc\u00dfe')
  const pieces = Readable.from([bytes.subarray(0, 3), bytes.subarray(3)])
  expect(await readInput(pieces, bytes.length)).toBe('gr\u00fc\u00dfe')
})

it('refuses one byte more than it is willing to read', async () => {
  const endless = Readable.from(
    (function* () {
      for (;;) yield Buffer.alloc(10)
    })(),
  )
  await expect(readInput(endless, 99)).rejects.toThrow(InputTooLongError)
})
