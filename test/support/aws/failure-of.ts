import { CloudError } from '../../../src/credentials/cloud.ts'

/** The CloudError with which `work` fails; any other outcome is an error of the test. */
export async function failureOf(work: Promise<unknown>): Promise<CloudError> {
  const end = await work.then(
    () => 'it succeeded',
    (error: unknown) => error,
  )
  if (end instanceof CloudError) return end
  throw new Error('no CloudError', { cause: end })
}
