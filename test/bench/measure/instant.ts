/** Microseconds of the machine's monotonic clock: the same in all processes of one machine. */
export function microseconds(): number {
  return Number(process.hrtime.bigint() / 1000n)
}
