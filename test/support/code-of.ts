import { RefusedError } from '../../src/server/http/problems.ts'

/** The code of a refusal; `answered` without one. */
export async function codeOf(answer: Promise<unknown>): Promise<string> {
  return await answer.then(
    () => 'answered',
    (error: unknown) => (error instanceof RefusedError ? error.code : String(error)),
  )
}
