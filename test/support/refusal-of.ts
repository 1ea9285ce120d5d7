import { type Problem, problemOf } from '../../src/server/http/problems.ts'

/** The problem with which a request was rejected; any other answer fails the test. */
export async function refusalOf(answer: Promise<unknown>): Promise<Problem> {
  const error = await answer.catch((thrown: unknown) => thrown)
  const problem = problemOf(error)
  if (problem.code !== 'internal') return problem
  throw new Error(`no refusal: ${String(error)}`)
}
