/** Source: IAM User Guide, "IAM JSON policy elements: Condition operators" and "Multivalued context keys". */
import { AwsError, NotInTheDouble } from '../aws-error.ts'
import { type Context, checkKey, isSetKey } from './context.ts'
import { matchesArn, matchesGlob } from './glob.ts'
import { checkVariables, expand } from './variables.ts'

type Compare = (wanted: string, given: string) => boolean

/** A comparison, and whether it is negated. */
type Operator = { compare: Compare; negated: boolean }

type Quantifier = 'all' | 'any' | undefined

export type Condition = Operator & {
  key: string
  values: readonly string[]
  quantifier: Quantifier
  ifExists: boolean
  /** Only tests whether the key is present. */
  isNull: boolean
  hasVariables: boolean
}

const same: Compare = (wanted, given) => plain(wanted) === given
const sameLetters: Compare = (wanted, given) => plain(wanted).toLowerCase() === given.toLowerCase()
const numbers = (compare: (wanted: number, given: number) => boolean): Compare => {
  return (wanted, given) => compare(Number(wanted), Number(given))
}
const times = (compare: (wanted: number, given: number) => boolean): Compare => {
  return (wanted, given) => compare(Date.parse(wanted), Date.parse(given))
}

const COMPARISONS: Readonly<Record<string, Compare>> = {
  StringEquals: same,
  StringEqualsIgnoreCase: sameLetters,
  StringLike: matchesGlob,
  ArnEquals: matchesArn,
  ArnLike: matchesArn,
  Bool: sameLetters,
  NumericEquals: numbers((wanted, given) => given === wanted),
  NumericLessThan: numbers((wanted, given) => given < wanted),
  NumericLessThanEquals: numbers((wanted, given) => given <= wanted),
  NumericGreaterThan: numbers((wanted, given) => given > wanted),
  NumericGreaterThanEquals: numbers((wanted, given) => given >= wanted),
  DateLessThan: times((wanted, given) => given < wanted),
  DateGreaterThan: times((wanted, given) => given > wanted),
}

const NEGATIONS: Readonly<Record<string, string>> = {
  StringNotEquals: 'StringEquals',
  StringNotEqualsIgnoreCase: 'StringEqualsIgnoreCase',
  StringNotLike: 'StringLike',
  ArnNotEquals: 'ArnEquals',
  ArnNotLike: 'ArnLike',
  NumericNotEquals: 'NumericEquals',
}

/** @throws NotInTheDouble for an operator or key that the emulator lacks, AwsError for an invalid condition */
export function parseConditions(block: unknown, hasVariables: boolean): Condition[] {
  if (typeof block !== 'object' || block === null || Array.isArray(block))
    throw malformed('Syntax errors in policy.')
  return Object.entries(block).flatMap(([operator, keys]) => {
    if (typeof keys !== 'object' || keys === null) throw malformed('Syntax errors in policy.')
    return Object.entries(keys as object).map(([key, values]) =>
      parseOne(operator, key, values, hasVariables),
    )
  })
}

function parseOne(written: string, key: string, raw: unknown, hasVariables: boolean): Condition {
  const operator = parseOperator(written)
  checkKey(key)
  if (isSetKey(key) && operator.quantifier === undefined && !operator.isNull)
    throw new NotInTheDouble(`${written} on ${key}, which has several values`)
  const values = (Array.isArray(raw) ? raw : [raw]).map((value: unknown) => {
    if (!['string', 'boolean', 'number'].includes(typeof value)) throw malformed('Syntax errors in policy.')
    return String(value)
  })
  if (hasVariables) values.forEach(checkVariables)
  return { ...operator, key, values, hasVariables }
}

function parseOperator(written: string): Omit<Condition, 'hasVariables' | 'key' | 'values'> {
  const [, set, name = '', exists] =
    /^(?:(ForAllValues|ForAnyValue):)?([A-Za-z]+?)(IfExists)?$/.exec(written) ?? []
  const isNull = name === 'Null'
  const compare = COMPARISONS[NEGATIONS[name] ?? name] ?? (isNull ? sameLetters : undefined)
  if (!compare) throw new NotInTheDouble(`the condition operator ${written}`)
  if (isNull && (set || exists)) throw malformed(`Null takes no ${set ?? exists}`)
  const quantifier = set === 'ForAllValues' ? 'all' : set === 'ForAnyValue' ? 'any' : undefined
  return { compare, negated: name in NEGATIONS, quantifier, ifExists: exists !== undefined, isNull }
}

export function holds(condition: Condition, context: Context): boolean {
  const given = context.get(condition.key)
  if (condition.isNull) return condition.values.some((value) => (value === 'true') === (given === undefined))
  if (given === undefined) return whenAbsent(condition)
  const wanted = condition.hasVariables
    ? condition.values.map((value) => expand(value, context)).filter((value) => value !== undefined)
    : condition.values
  const fits = (one: string) => wanted.some((value) => condition.compare(value, one)) !== condition.negated
  return condition.quantifier === 'any' ? given.some(fits) : given.every(fits)
}

/** Source: the same page: a negated operator is true if the key is absent. */
function whenAbsent({ quantifier, ifExists, negated }: Condition): boolean {
  if (quantifier === 'all' || ifExists) return true
  return quantifier === undefined && negated
}

/** Expanded variables contain marked wildcards; these comparisons do not use wildcards. */
function plain(text: string): string {
  return text.replaceAll('\uE000', '*').replaceAll('\uE001', '?')
}

function malformed(message: string): AwsError {
  return AwsError.coded('MalformedPolicyDocument', message)
}
