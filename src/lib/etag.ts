/** ETags of objects: of UID and generation (settled, "REST shapes"), so that counters do not change them. */
import { createHash } from 'node:crypto'
import { encodeBase32 } from './text.ts'

/** The value of the header, quotes included. */
export function etagOf({ uid, generation = 0 }: { uid: string; generation?: number | undefined }): string {
  return `"${encodeBase32(createHash('sha256').update(uid).digest(), 16)}-${generation}"`
}

const TAG = /^"[\x21\x23-\x7e]*"$/

/**
 * Whether an object with this ETag may be changed, by the strong comparison of RFC 9110 §13.1.1: a weak tag fits
 * nothing. What is no list of tags fits nothing either.
 * @param ifMatch value of If-Match; absent: nothing was asked for
 */
export function ifMatchHolds(ifMatch: string | undefined, etag: string): boolean {
  if (ifMatch === undefined || ifMatch.trim() === '*') return true
  const tags = ifMatch.split(',').map((tag) => tag.trim())
  return tags.some((tag) => TAG.test(tag) && tag === etag)
}
