/** Settings of `davit check`, the test of a release: where what it looks at is. */
import { z } from 'zod'
import type { Environment } from './config.ts'
import { parseVariables } from './config-command.ts'
import { integer } from './config-values.ts'

const url = z.url({ protocol: /^https?$/, error: 'must be an http or https URL' })

const variables = z.object({
  DAVIT_CHECK_READY: z
    .string('is missing')
    .transform((text) => text.split(','))
    .pipe(z.array(url).min(1).max(10)),
  DAVIT_CHECK_API: url.optional(),
  DAVIT_CHECK_TOKEN_FILE: z.string().startsWith('/', 'must be an absolute path').optional(),
  DAVIT_CHECK_ORGANIZATION: z.string().min(1).max(63).default('default'),
  DAVIT_CHECK_SECONDS: integer(1, 3600, 60),
})

export type CheckConfig = {
  /** Answer 200 once what is behind them is ready. */
  ready: string[]
  /** The REST API, without a path; absent: it is not called. */
  api: string | undefined
  /** A file with a key for it, which may do nothing. */
  tokenFile: string | undefined
  /** A name that no organization has. */
  organization: string
  /** How long it may take until all is well. */
  limitMs: number
}

/** @throws ConfigError with every mistake */
export function parseCheckConfig(environment: Environment): CheckConfig {
  const data = parseVariables(variables, environment)
  return {
    ready: data.DAVIT_CHECK_READY,
    api: data.DAVIT_CHECK_API?.replace(/\/+$/, ''),
    tokenFile: data.DAVIT_CHECK_TOKEN_FILE,
    organization: data.DAVIT_CHECK_ORGANIZATION,
    limitMs: data.DAVIT_CHECK_SECONDS * 1000,
  }
}
