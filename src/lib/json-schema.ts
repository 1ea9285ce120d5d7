import { createContext, Script } from 'node:vm'
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js'
import { LRUCache } from 'lru-cache'
import { fieldOf } from './json.ts'
import { hasEndlessReference } from './schema-circles.ts'

/**
 * JSON Schema 2020-12 by ajv. Schemas come from the platform, data from tenants, so a schema may be careless but must
 * not let tenants stop the process: backtracking patterns and comparisons of all items with each other run under a
 * time limit. References cannot leave the schema.
 */

export type SchemaProblem = { pointer: string; message: string }

export interface SchemaValidator {
  /** Problems of `data`, at most 10, none if it fits. @throws SchemaError if the schema is not usable */
  validate(schema: Record<string, unknown>, data: unknown): SchemaProblem[]
  /** Why nothing can be validated against the schema, in words that a sentence can end with; undefined if it is usable. */
  faultOf(schema: Record<string, unknown>): string | undefined
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

/** The schema is not usable; the message says why, in words that a sentence can end with. */
export class SchemaError extends Error {
  override readonly name = 'SchemaError'
}

const DIALECT = 'https://json-schema.org/draft/2020-12/schema'
const MAX_COMPILED = 500
const MAX_SCHEMA_LENGTH = 64 * 1024
const MAX_PROBLEMS = 10
const MAX_MESSAGE = 300
/** For schemas with costly keywords. */
const CHECK_LIMIT_MS = 100
/** For finding out whether a schema can be used: running out of stack takes a while. Once for each schema. */
const PROBE_LIMIT_MS = 300
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

/** Compiled schemas are cached by identity, so that a catalogue entry is compiled once, usable or not. */
export function createSchemaValidator(): SchemaValidator {
  const known = new LRUCache<object, Compiled | SchemaError>({ max: MAX_COMPILED })
  const checkSchema = createSchemaCheck()
  const checkLimit = createTimeLimit(CHECK_LIMIT_MS)
  const probeLimit = createTimeLimit(PROBE_LIMIT_MS)
  const searchLimit = createTimeLimit(SEARCH_LIMIT_MS)
  const plainSearchLimit = createTimeLimit(PLAIN_SEARCH_LIMIT_MS)

  function compiledOf(schema: Record<string, unknown>): Compiled | SchemaError {
    const compiled = known.get(schema) ?? tryCompile(schema, { checkSchema, probeLimit })
    known.set(schema, compiled)
    return compiled
  }

  return {
    /** @throws SchemaError */
    validate(schema, data) {
      const compiled = compiledOf(schema)
      if (compiled instanceof SchemaError) throw compiled
      const { costly, check, search } = compiled
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
    faultOf(schema) {
      const compiled = compiledOf(schema)
      return compiled instanceof SchemaError ? compiled.message : undefined
    },
  }
}

type Compilers = { checkSchema: (schema: object) => void; probeLimit: TimeLimit }

function tryCompile(schema: Record<string, unknown>, compilers: Compilers): Compiled | SchemaError {
  try {
    return compile(schema, compilers)
  } catch (error) {
    if (error instanceof SchemaError) return error
    throw error
  }
}

function compile(schema: Record<string, unknown>, { checkSchema, probeLimit }: Compilers): Compiled {
  const text = textOf(schema)
  if (text.length > MAX_SCHEMA_LENGTH) {
    throw new SchemaError(`it has more than ${MAX_SCHEMA_LENGTH} characters`)
  }
  checkSchema(schema)
  const check = compileWith(schema, false)
  if (hasEndlessReference(schema)) throw new SchemaError(ENDLESS)
  probe(check, probeLimit)
  let all: ValidateFunction | undefined
  return {
    costly: COSTLY.test(text),
    check,
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
      throw new SchemaError(bounded(otherDialect(fieldOf(schema, '$schema'))), { cause: error })
    }
    const errors = meta.errorsText(meta.errors, { dataVar: 'schema', separator: ', and ' })
    throw new SchemaError(bounded(errors))
  }
}

function otherDialect(dialect: unknown): string {
  return `$schema must be ${DIALECT}, or absent, but is ${JSON.stringify(dialect)}`
}

function textOf(schema: Record<string, unknown>): string {
  try {
    return JSON.stringify(schema)
  } catch (error) {
    throw new SchemaError('it is nested too deeply', { cause: error })
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
    const check = compiler.compile(schema)
    // A keyword of the library: its answer is a promise, which everything would fit.
    if ('$async' in check) throw new SchemaError(`the keyword $async ${UNKNOWN_KEYWORD}`)
    return check
  } catch (error) {
    if (error instanceof SchemaError) throw error
    throw new SchemaError(bounded(inWords(error)), { cause: error })
  }
}

const UNKNOWN_KEYWORD = 'is not part of JSON Schema 2020-12'
const ENDLESS = 'a reference recurses endlessly'

/** What the library says of a schema that it cannot compile, for people who do not know the library. */
function inWords(error: unknown): string {
  if (error instanceof RangeError) return ENDLESS
  const message = error instanceof Error ? error.message : String(error)
  const [, reference] = /^can't resolve reference (\S+) from id/.exec(message) ?? []
  if (reference !== undefined) return `the reference ${reference} cannot be resolved in the schema`
  if (message === 'async schema in sync schema') return `the keyword $async ${UNKNOWN_KEYWORD}`
  const [, keyword, instead] = /^NOT SUPPORTED: keyword "([^"]+)", use "([^"]+)"/.exec(message) ?? []
  if (keyword !== undefined) return `the keyword ${keyword} ${UNKNOWN_KEYWORD}; use ${instead}`
  const [, pattern, flaw] = /^Invalid regular expression: (.*): ([^:]+)$/s.exec(message) ?? []
  if (pattern !== undefined) return `the pattern ${pattern} is invalid: ${flaw}`
  return message
}

/** One value of each type: a schema that refers to itself for each of them would find none of them valid. */
const PROBES: readonly unknown[] = [null, true, 0, '', [], {}]

/** @throws SchemaError if a check does not end, which compiling does not find out */
function probe(check: ValidateFunction, limit: TimeLimit, isRepeated = false): void {
  try {
    limit(() => PROBES.forEach((value) => void check(value)))
  } catch (error) {
    if (!(error instanceof TimeLimitError)) throw new SchemaError(bounded(inWords(error)), { cause: error })
    // The answer is kept, so it must not come from a pause of the process.
    if (isRepeated)
      throw new SchemaError('it takes too long to validate even an empty object', { cause: error })
    probe(check, limit, true)
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
  return { pointer: bounded(instancePath), message: bounded(words + detailOf(params)) }
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
