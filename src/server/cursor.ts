/**
 * Cursors: where a reader is in a list, for the reader to hand back and not to look into. Each is signed for its
 * list, so that it leads nowhere else, and holds no state here: it outlives a restart.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Clock } from '../lib/ports-clock.ts'
import { Problem } from './http/problems.ts'

export type Cursors = {
  /** @param list names the list, with everything that decides what is in it @param last the last id that was shown */
  make(list: readonly string[], last: string): string
  /** The last id that was shown. @throws Problem invalid (not made for this list), cursor_expired */
  read(list: readonly string[], cursor: string): string
}

const VERSION = 1
const LIFE_MS = 24 * 60 * 60 * 1000
const SIGNATURE_BYTES = 16
const HEAD_BYTES = 7
const LONGEST = 512

/** @param key of the installation, the same for all replicas */
export function createCursors(key: Uint8Array, clock: Pick<Clock, 'now'>): Cursors {
  const sign = (list: readonly string[], content: Buffer) =>
    createHmac('sha256', key)
      .update(JSON.stringify(['cursor', ...list]))
      .update(content)
      .digest()
      .subarray(0, SIGNATURE_BYTES)
  return {
    make(list, last) {
      const head = Buffer.alloc(HEAD_BYTES)
      head.writeUInt8(VERSION)
      head.writeUIntBE(clock.now(), 1, HEAD_BYTES - 1)
      const content = Buffer.concat([head, Buffer.from(last, 'utf8')])
      return Buffer.concat([sign(list, content), content]).toString('base64url')
    },
    read(list, cursor) {
      const bytes = decode(cursor)
      const content = bytes.subarray(SIGNATURE_BYTES)
      if (content.length <= HEAD_BYTES) throw foreign()
      if (!timingSafeEqual(sign(list, content), bytes.subarray(0, SIGNATURE_BYTES))) throw foreign()
      const madeAt = content.readUIntBE(1, HEAD_BYTES - 1)
      if (content.readUInt8() !== VERSION || clock.now() - madeAt > LIFE_MS)
        throw new Problem('cursor_expired')
      return content.toString('utf8', HEAD_BYTES)
    },
  }
}

/** What decodes to the same bytes but is written otherwise was not made here. */
function decode(cursor: string): Buffer {
  const bytes = Buffer.from(cursor.slice(0, LONGEST), 'base64url')
  if (cursor.length > LONGEST || bytes.toString('base64url') !== cursor) throw foreign()
  return bytes
}

function foreign(): Problem {
  return new Problem('invalid', {
    errors: [
      { pointer: 'cursor', message: 'is no cursor of this list with these filters; begin without it' },
    ],
  })
}
