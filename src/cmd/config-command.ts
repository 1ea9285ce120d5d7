import type { z } from 'zod'
import { ConfigError, type Environment } from './config.ts'

/**
 * Those of a command that has settings of its own; an empty one counts as absent, and others are not looked at.
 * @throws ConfigError with every mistake
 */
export function parseVariables<Schema extends z.ZodObject>(
  schema: Schema,
  environment: Environment,
): z.output<Schema> {
  const given = Object.fromEntries(Object.entries(environment).filter(([, value]) => value))
  const { data, error } = schema.safeParse(given)
  if (data) return data
  throw new ConfigError(
    (error?.issues ?? []).map(({ path, message }) => ({ variable: String(path[0]), allowed: message })),
  )
}
