import type { z } from 'zod'
import { Problem, type ProblemPlace } from './problems.ts'

const MOST_PLACES = 20
const LONGEST_MESSAGE = 300
/** Names of fields are shorter; what is longer may be anything, a secret in the wrong place too, and is not repeated. */
const LONGEST_NAME = 30

/** A body against its schema. @throws Problem invalid, with a JSON pointer to each place */
export function validateBody<T extends z.ZodType>(schema: T, body: unknown): z.output<T> {
  return validate(schema, body, (path) => path.map((part) => `/${escapePointer(String(part))}`).join(''))
}

/** Parameters against their schema. @throws Problem invalid, with the name of each that is wrong */
export function validateQuery<T extends z.ZodType>(schema: T, query: unknown): z.output<T> {
  return validate(schema, query, (path) => String(path[0] ?? ''))
}

type Path = readonly PropertyKey[]

function validate<T extends z.ZodType>(
  schema: T,
  value: unknown,
  pointerTo: (path: Path) => string,
): z.output<T> {
  const result = schema.safeParse(value, { error: wordsFor })
  if (result.success) return result.data
  const places = result.error.issues.flatMap((issue) => placesOf(issue, pointerTo))
  throw new Problem('invalid', { errors: places.slice(0, MOST_PLACES) })
}

function placesOf(issue: z.core.$ZodIssue, pointerTo: (path: Path) => string): ProblemPlace[] {
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) =>
      key.length > LONGEST_NAME
        ? { pointer: pointerTo(issue.path), message: 'has a field that is not known here' }
        : { pointer: pointerTo([...issue.path, key]), message: 'is not known here' },
    )
  }
  return [{ pointer: pointerTo(issue.path), message: issue.message.slice(0, LONGEST_MESSAGE) }]
}

/** In the words of the other messages, which say what the field must be; undefined leaves the library's own. */
function wordsFor(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined ? 'is required' : `must be ${withArticle(issue.expected)}`
    case 'invalid_value':
      return issue.input === undefined
        ? 'is required'
        : `must be ${issue.values.map((value) => JSON.stringify(value)).join(' or ')}`
    case 'too_small':
      return bounded(issue.origin, 'at least', Number(issue.minimum))
    case 'too_big':
      return bounded(issue.origin, 'at most', Number(issue.maximum))
    default:
      return undefined
  }
}

function withArticle(type: string): string {
  if (type === 'int' || type === 'int32') return 'a whole number'
  return /^[aeio]/.test(type) ? `an ${type}` : `a ${type}`
}

/** What a bound counts; elsewhere it bounds the value itself. */
const COUNTED: Readonly<Record<string, string>> = { array: 'item', string: 'character' }

function bounded(origin: string, words: string, bound: number): string {
  const things = COUNTED[origin]
  return things === undefined
    ? `must be ${words} ${bound}`
    : `must have ${words} ${bound} ${things}${bound === 1 ? '' : 's'}`
}

function escapePointer(part: string): string {
  return part.replaceAll('~', '~0').replaceAll('/', '~1')
}
