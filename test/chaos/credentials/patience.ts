import { setTimeout as sleep } from 'node:timers/promises'
import { type ApiErrorKind, isApiError } from '../../../src/kube/client.ts'

const PATIENCE_MS = 120_000
const AGAIN_MS = 100

/**
 * Retries while the API server is away.
 * @param harmless errors that mean that it was already done, or that there is nothing to do
 */
export async function patiently<T>(
  ask: () => Promise<T>,
  ...harmless: ApiErrorKind[]
): Promise<T | undefined> {
  const limit = performance.now() + PATIENCE_MS
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      if (isApiError(error, ...harmless) && harmless.length > 0) return undefined
      const mayPass = isApiError(
        error,
        'Unavailable',
        'TooManyRequests',
        'Conflict',
        'Unauthorized',
        'Forbidden',
      )
      if (!mayPass || performance.now() > limit) throw error
    }
    await sleep(AGAIN_MS)
  }
}

/** @returns whether it became true in time */
export async function eventually(is: () => Promise<boolean>, limitMs: number): Promise<boolean> {
  const limit = performance.now() + limitMs
  for (;;) {
    if (await patiently(is)) return true
    if (performance.now() > limit) return false
    await sleep(AGAIN_MS)
  }
}
