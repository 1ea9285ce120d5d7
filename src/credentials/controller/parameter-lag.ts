/**
 * What another process has just written is not shown at once: that nothing is there means something only a while after the last
 * write. Without that a parameter of the REST API would be taken for one that somebody has removed.
 */

import type { CredentialAction } from './credential-step.ts'
import type { CredentialFacts } from './facts.ts'

/** Seen are a few seconds. */
export const VISIBLE_AFTER_MS = 10_000
/** Clocks of two processes differ by less; a time that is further ahead is no time. */
const SKEW_MS = 60_000

/** Undefined: what is not shown is not there. */
export function waitUntilVisible({
  writtenAt,
  now,
}: Pick<CredentialFacts, 'writtenAt' | 'now'>): CredentialAction | undefined {
  const until = writtenAt + VISIBLE_AFTER_MS
  if (now >= until || writtenAt > now + SKEW_MS) return undefined
  const message =
    'The account does not show the parameter, which may have been written a moment ago. Davit looks again.'
  return { step: 'wait', reason: 'Storing', message, until }
}
