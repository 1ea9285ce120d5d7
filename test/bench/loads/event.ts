/** The events of the bench: of one size, each with its number and the time at which it came about. */

/** `run` tells loads apart, `n` counts from 0 within one, `at` is in microseconds of `instant.ts`. */
export type BenchStamp = { run: number; n: number; at: number }

/** `{"type":"...","timestamp":"...","data":}` around the data, about. */
export const ENVELOPE_BYTES = 80

/** Of two bytes in UTF-8; V8 then keeps every character of the text in two bytes. */
const WIDE = 'ł'

/**
 * JSON of about `bytes`. The stamp comes first, so that a receiver need not read the rest.
 * @param wide whether it has a character beyond Latin-1
 */
export function stampedData(stamp: BenchStamp, bytes: number, wide = false): string {
  const head = `{"run":${stamp.run},"n":${stamp.n},"at":${stamp.at},"fill":"${wide ? WIDE : ''}`
  return `${head}${'x'.repeat(Math.max(0, bytes - head.length - 2))}"}`
}

const STAMP = /"run":(\d+),"n":(\d+),"at":(\d+)/

/** @param body of a delivery, or its beginning */
export function readStamp(body: string): BenchStamp | undefined {
  const [, run, n, at] = STAMP.exec(body) ?? []
  return at === undefined ? undefined : { run: Number(run), n: Number(n), at: Number(at) }
}
