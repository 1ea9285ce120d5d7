import { isApiError } from '../../kube/client.ts'
import { UnreadableError } from '../../kube/unreadable-error.ts'
import { KeysDamagedError } from '../../webhooks/endpoints/signing-keys.ts'
import { OverloadedError } from '../../webhooks/log/group-commit.ts'
import type { EventLog } from '../../webhooks/log/store.ts'
import { refusalOf } from './refusal-of.ts'
import { RefusedError } from './refused-error.ts'

const BUSY_SECONDS = 1
const MENDED_SECONDS = 30

/** Runs `work`; what the cluster says, and that there is too much to do, comes out as a refusal. */
export async function withRefusals<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof OverloadedError) {
      const detail = 'Too much waits to be stored; nothing was accepted.'
      throw new RefusedError('overloaded', { detail, retryAfter: BUSY_SECONDS, cause: error })
    }
    throw refusalOf(error) ?? unreadable(error) ?? error
  }
}

/** In words of its own: which object, and what is in it, is the operator's business. */
function unreadable(error: unknown): RefusedError | undefined {
  const detail = detailOf(error)
  return detail === undefined ? undefined : new RefusedError('unreadable', { detail, cause: error })
}

function detailOf(error: unknown): string | undefined {
  if (error instanceof UnreadableError) return 'It does not fit the rules of this version.'
  if (!(error instanceof KeysDamagedError)) return undefined
  return 'Its signing keys cannot be read. Whoever runs Davit can restore them, or delete them for new ones.'
}

/**
 * The log, in the operator's own namespace: where that takes nothing, since its quota is used up, a right is missing or
 * it is being deleted, the organization is there all the same, and its clients have to come again.
 */
export function withLogRefusals(log: EventLog): EventLog {
  return {
    append: async (events) => {
      try {
        return await log.append(events)
      } catch (error) {
        if (!isApiError(error, 'Quota', 'Forbidden', 'Terminating', 'NotFound')) throw error
        const detail = 'The delivery log takes no events now; nothing was accepted.'
        throw new RefusedError('overloaded', { detail, retryAfter: MENDED_SECONDS, cause: error })
      }
    },
  }
}
