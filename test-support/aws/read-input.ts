import type { z } from 'zod'
import { AwsError, NotInTheDouble } from './aws-error.ts'

type Issue = z.core.$ZodIssue

/**
 * @returns the input in the type of its operation
 * @throws AwsError in the wording of AWS, which never contains the value; NotInTheDouble for members that the emulator lacks
 */
export function readInput(schema: z.ZodType, input: unknown): unknown {
  const parsed = schema.safeParse(input)
  if (parsed.success) return parsed.data
  const { issues } = parsed.error
  for (const issue of issues)
    if (issue.code === 'unrecognized_keys')
      throw new NotInTheDouble(`the member ${[...issue.path, ...issue.keys].join('.')}`)
  const typed = issues.find((issue) => issue.code === 'invalid_type' && at(input, issue.path) !== undefined)
  if (typed) throw AwsError.of('malformed', '')
  const messages = issues.map(
    (issue) => `Value at '${wireName(issue.path)}' failed to satisfy constraint: ${constraintOf(issue)}`,
  )
  const count = `${messages.length} validation error${messages.length === 1 ? '' : 's'} detected`
  throw AwsError.of('validation', `${count}: ${messages.join('; ')}`)
}

function constraintOf(issue: Issue): string {
  switch (issue.code) {
    case 'too_small':
      return `Member must have ${measure(issue.origin)} greater than or equal to ${issue.minimum}`
    case 'too_big':
      return `Member must have ${measure(issue.origin)} less than or equal to ${issue.maximum}`
    case 'invalid_format':
      return `Member must satisfy regular expression pattern: ${issue.pattern ?? issue.format}`
    case 'invalid_value':
      return `Member must satisfy enum value set: [${issue.values.join(', ')}]`
    default:
      return 'Member must not be null'
  }
}

function measure(origin: string): string {
  return origin === 'number' || origin === 'int' ? 'value' : 'length'
}

/** `Tags[0].Key` is `tags.1.member.key`. */
function wireName(path: readonly PropertyKey[]): string {
  return path
    .map((part) => (typeof part === 'number' ? `${part + 1}.member` : lowerFirst(String(part))))
    .join('.')
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1)
}

function at(input: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (value, part) => (value as Record<PropertyKey, unknown> | undefined)?.[part],
    input,
  )
}
