/**
 * Settings of the two programs that pull on a box: from the environment, in a file of their own, since they start with every
 * pull and must not wait for what a server is configured with.
 */
import { z } from 'zod'
import { integer, matching, parameterPrefix } from './config-values.ts'

export type BoxConfig = {
  credentialsPath: string
  keepSeconds: number
  /** That of the operator. */
  parameterPrefix: string
}

/** `words` name every mistake. */
export class BoxConfigError extends Error {
  override readonly name = 'BoxConfigError'
}

const DAY_SECONDS = 24 * 3600

const variables = z.object({
  DAVIT_CREDENTIALS: matching(/^\/[^\0]{0,4095}$/, 'must be an absolute path').default('/etc/davit'),
  DAVIT_KEEP_SECONDS: integer(0, DAY_SECONDS, 300),
  DAVIT_PARAMETER_PREFIX: parameterPrefix.default('/davit'),
})

/** @throws BoxConfigError */
export function readBoxConfig(
  environment: Readonly<Record<string, string | undefined>> = process.env,
): BoxConfig {
  const given = Object.entries(environment).filter(
    ([name, value]) => name.startsWith('DAVIT_') && value !== '',
  )
  const parsed = variables.safeParse(Object.fromEntries(given))
  if (!parsed.success) {
    throw new BoxConfigError(
      parsed.error.issues.map(({ path, message }) => `${path.join('.')} ${message}`).join('; '),
    )
  }
  const { data } = parsed
  return {
    credentialsPath: data.DAVIT_CREDENTIALS,
    keepSeconds: data.DAVIT_KEEP_SECONDS,
    parameterPrefix: data.DAVIT_PARAMETER_PREFIX,
  }
}
