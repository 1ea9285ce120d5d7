import { createContext, Script } from 'node:vm'
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js'
import { LRUCache } from 'lru-cache'

/**
 * JSON Schema 2020-12 by ajv. Schemas come from the platform, data from tenants, so a schema may be careless but must
 * not let tenants stop the process: backtracking patterns and comparisons of all items with each other run under a
 * time limit. References cannot leave the schema.
 */

export type SchemaProblem = { pointer: string; message: string }

export interface SchemaValidator {
  /** Problems of `data`, at most 10, none if it fits. @throws SchemaError if the schema is not usable */
  validate(schema: Record<string, unknown>, data: unknown): SchemaProblem[]
}

export class TimeLimitError extends Error {
  override readonly name = 'TimeLimitError'
}

/** Runs a synchronous call under a time limit, even inside a regular expression. It may run the call again. */
export type TimeLimit = <T>(run: () => T) => T

/** A timed-out call that had less CPU than this share was slow because the machine was busy. */
const LEAST_CPU = 0.5
const MOST_TRIES = 3

/**
 * Costs some tens of microseconds per call.
 * @param usedMs CPU used by this process so far
 * @returns a limit that throws TimeLimitError, and whatever the call throws
 */
export function createTimeLimit(milliseconds: number, usedMs: () => number = cpuOfProcess): TimeLimit {
  const context = createContext({ run: () => undefined as unknown })
  const script = new Script('run()')
  return <T>(run: () => T): T => {
    context.run = run
    try {
      for (let tries = 1; ; tries += 1) {
        const before = usedMs()
        try {
          return script.runInContext(context, { timeout: milliseconds }) as T
        } catch (error) {
          if (!isTimeout(error)) throw error
          if (usedMs() - before >= milliseconds * LEAST_CPU || tries === MOST_TRIES)
            throw new TimeLimitError(`took longer than ${milliseconds} ms`, { cause: error })
        }
      }
    } finally {
      context.run = undefined
    }
  }
}

/** Of all threads. */
function cpuOfProcess(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

/** The error comes from the other context, so it is not an instance of this one's Error. */
function isTimeout(error: unknown): boolean {
  const object = typeof error === 'object' && error !== null
  return object && 'code' in error && error.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT'
}

/** The schema is not usable; the message says why. */
export class SchemaError extends Error {
  override readonly name = 'SchemaError'
}

const MAX_COMPILED = 500
const MAX_SCHEMA_LENGTH = 64 * 1024
const MAX_PROBLEMS = 10
const MAX_MESSAGE = 300
/** For schemas with costly keywords. */
const CHECK_LIMIT_MS = 100
/** For finding the other problems once there is one, likewise. */
const SEARCH_LIMIT_MS = 20
/** For schemas without costly keywords; only a process without CPU exceeds it. */
const PLAIN_SEARCH_LIMIT_MS = 200

/** Keywords whose cost is not proportional to the data. */
const COSTLY = /"(pattern|patternProperties|uniqueItems|\$ref|\$dynamicRef)":/

type Compiled = {
  costly: boolean
  /** Stops at the first problem. */
  check: ValidateFunction
  /** Finds all problems; compiled at first use. */
  search: () => ValidateFunction
}

/** Compiled schemas are cached by identity, so that a catalogue entry is compiled once. */
export function createSchemaValidator(): SchemaValidator {
  const known = new LRUCache<object, Compiled>({ max: MAX_COMPILED })
  const checkSchema = createSchemaCheck()
  const checkLimit = createTimeLimit(CHECK_LIMIT_MS)
  const searchLimit = createTimeLimit(SEARCH_LIMIT_MS)
  const plainSearchLimit = createTimeLimit(PLAIN_SEARCH_LIMIT_MS)

  function compiledOf(schema: Record<string, unknown>): Compiled {
    const compiled = known.get(schema) ?? compile(schema, checkSchema)
    known.set(schema, compiled)
    return compiled
  }

  return {
    /** @throws SchemaError */
    validate(schema, data) {
      const { costly, check, search } = compiledOf(schema)
      try {
        const fits = costly ? checkLimit(() => check(data)) : check(data)
        if (fits) return []
      } catch (error) {
        return [givenUp(error)]
      }
      const first = problemsOf(check)
      try {
        const all = search()
        const limit = costly ? searchLimit : plainSearchLimit
        limit(() => all(data))
        return problemsOf(all)
      } catch {
        return first
      }
    },
  }
}

function compile(schema: Record<string, unknown>, checkSchema: (schema: object) => void): Compiled {
  const text = textOf(schema)
  if (text.length > MAX_SCHEMA_LENGTH) {
    throw new SchemaError(`the schema has more than ${MAX_SCHEMA_LENGTH} characters`)
  }
  checkSchema(schema)
  let all: ValidateFunction | undefined
  return {
    costly: COSTLY.test(text),
    check: compileWith(schema, false),
    search() {
      all ??= compileWith(schema, true)
      return all
    },
  }
}

/** @returns a check that throws SchemaError if its argument is not a JSON Schema 2020-12 */
function createSchemaCheck(): (schema: object) => void {
  const meta = new Ajv2020({ strict: false, logger: false })
  return (schema) => {
    try {
      if (meta.validateSchema(schema) === true) return
    } catch (error) {
      throw new SchemaError('$schema must be JSON Schema 2020-12', { cause: error })
    }
    throw new SchemaError(
      bounded(`schema is invalid: ${meta.errorsText(meta.errors, { dataVar: 'schema' })}`),
    )
  }
}

function textOf(schema: Record<string, unknown>): string {
  try {
    return JSON.stringify(schema)
  } catch (error) {
    throw new SchemaError('the schema is nested too deeply', { cause: error })
  }
}

/** One compiler per schema, so that identifiers of one schema mean nothing in another. */
function compileWith(schema: Record<string, unknown>, allErrors: boolean): ValidateFunction {
  const compiler = new Ajv2020({
    allErrors,
    strict: false,
    validateFormats: false,
    inlineRefs: false,
    // Checked before by a shared instance: preparing one takes longer than the rest.
    meta: false,
    validateSchema: false,
    logger: false,
  })
  try {
    return compiler.compile(schema)
  } catch (error) {
    throw new SchemaError(bounded(error instanceof Error ? error.message : String(error)), { cause: error })
  }
}

/** Deep recursion or an endless pattern: the data was not found valid. */
function givenUp(error: unknown): SchemaProblem {
  const slow = error instanceof TimeLimitError
  return { pointer: '', message: slow ? 'takes too long to validate' : 'cannot be validated' }
}

function problemsOf(checked: ValidateFunction): SchemaProblem[] {
  return (checked.errors ?? []).slice(0, MAX_PROBLEMS).map(problemOf)
}

function problemOf({ keyword, instancePath, message, params }: ErrorObject): SchemaProblem {
  const words = message ?? `does not match ${keyword}`
  return { pointer: instancePath, message: bounded(words + detailOf(params)) }
}

/** What the library's message leaves out. */
function detailOf(params: Record<string, unknown>): string {
  const name = params.additionalProperty ?? params.unevaluatedProperty
  if (typeof name === 'string') return `: ${JSON.stringify(name)}`
  return 'allowedValues' in params ? `: ${JSON.stringify(params.allowedValues)}` : ''
}

function bounded(text: string): string {
  return text.length <= MAX_MESSAGE ? text : `${text.slice(0, MAX_MESSAGE)}...`.toWellFormed()
}
