import { problemOf } from '../../src/server/http/problems.ts'

/** The code of the problem with which a request is answered; `answered` without one. */
export async function codeOf(answer: Promise<unknown>): Promise<string> {
  return await answer.then(
    () => 'answered',
    (error: unknown) => {
      const { code } = problemOf(error)
      return code === 'internal' ? String(error) : code
    },
  )
}
