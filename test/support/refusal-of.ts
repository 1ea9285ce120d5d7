import { RefusedError } from '../../src/server/http/problems.ts'

/** With what a request was refused; any other answer fails the test. */
export async function refusalOf(answer: Promise<unknown>): Promise<RefusedError> {
  const error = await answer.catch((thrown: unknown) => thrown)
  if (error instanceof RefusedError) return error
  throw new Error(`no refusal: ${String(error)}`)
}
