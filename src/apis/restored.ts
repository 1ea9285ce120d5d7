/**
 * A backup that is restored must not send again what was sent: an object made anew from a copy has a young
 * creationTimestamp and an old stamp of ours inside.
 */
const TOLERANCE_MS = 5 * 60_000

/** @param writtenAt our stamp @param createdAt the API server's; both milliseconds since 1970 */
export function isRestored(writtenAt: number, createdAt: number): boolean {
  return createdAt - writtenAt > TOLERANCE_MS
}
