import { CloudError } from '../cloud-error.ts'
import type { CloudFailure } from '../cloud-failure.ts'
import type { CloudResult } from './plan.ts'

/** What came of a call to the cloud, as a value. @throws what is no CloudError */
export async function tryCloud<T>(call: () => Promise<T>): Promise<CloudResult<T>> {
  try {
    return { value: await call() }
  } catch (error) {
    return { failure: failureOf(error) }
  }
}

/** @throws what is no CloudError */
export function failureOf(error: unknown): CloudFailure {
  if (!(error instanceof CloudError)) throw error
  const { remedy, code, message } = error
  return { remedy, code, message }
}
