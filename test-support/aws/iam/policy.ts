import { AwsError, NotInTheDouble } from '../aws-error.ts'
import { type Condition, parseConditions } from './conditions.ts'
import { checkVariables } from './variables.ts'

/** An object or its JSON. */
export type PolicyDocument = string | Readonly<Record<string, unknown>>

/** The kind of a policy determines its elements. */
export type PolicyKind = 'identity' | 'session' | 'trust' | 'key'

export type Statement = {
  allows: boolean
  /** `except` means all actions, or all resources, but these. */
  actions: { patterns: readonly string[]; except: boolean }
  resources: { patterns: readonly string[]; except: boolean }
  /** Account ids, ARNs or `*`; empty if the policy belongs to the principal. */
  principals: readonly string[]
  conditions: readonly Condition[]
  hasVariables: boolean
}

export type Policy = readonly Statement[]

/** Quotas without white space. Source: IAM User Guide, "IAM and AWS STS quotas". */
const QUOTAS: Readonly<Partial<Record<PolicyKind, number>>> = { trust: 2_048, key: 32_768 }
const ELEMENTS = new Set([
  'Sid',
  'Effect',
  'Action',
  'NotAction',
  'Resource',
  'NotResource',
  'Principal',
  'Condition',
])
const VERSIONS = ['2012-10-17', '2008-10-17']
const PRINCIPAL = /^(\*|\d{12}|arn:[a-z-]+:(iam|sts)::\d{12}:(root|(user|role|assumed-role)\/[\w+=,.@/-]+))$/

/** @throws AwsError MalformedPolicyDocument, NotInTheDouble if the emulator cannot interpret the policy */
export function parsePolicy(document: PolicyDocument, kind: PolicyKind): Policy {
  const text = typeof document === 'string' ? document : JSON.stringify(document)
  const quota = QUOTAS[kind]
  if (quota !== undefined && text.replace(/\s/g, '').length > quota)
    throw AwsError.coded('LimitExceeded', `Cannot exceed quota for ACLSizePerRole: ${quota}`, 409)
  const { Version, Statement, Id: _, ...rest } = readObject(text)
  if (Version !== undefined && !VERSIONS.includes(String(Version)))
    throw malformed('Policy document must be version 2012-10-17 or greater.')
  if (Object.keys(rest).length > 0) throw malformed('Syntax errors in policy.')
  const statements = Array.isArray(Statement) ? Statement : [Statement]
  const sids = statements
    .map((one) => (one as { Sid?: unknown } | undefined)?.Sid)
    .filter((sid) => sid !== undefined)
  if (new Set(sids).size < sids.length)
    throw malformed('Statement IDs (SID) in a single policy must be unique.')
  return statements.map((statement) => parseStatement(statement, kind, Version === VERSIONS[0]))
}

function parseStatement(raw: unknown, kind: PolicyKind, hasVariables: boolean): Statement {
  if (typeof raw !== 'object' || raw === null) throw malformed('Syntax errors in policy.')
  const statement = raw as Record<string, unknown>
  if ('NotPrincipal' in statement) throw new NotInTheDouble('NotPrincipal')
  const unknown = Object.keys(statement).find((element) => !ELEMENTS.has(element))
  if (unknown !== undefined) throw malformed('Syntax errors in policy.')
  const { Effect, Sid, Principal, Condition } = statement
  if (Effect !== 'Allow' && Effect !== 'Deny') throw malformed('Syntax errors in policy.')
  if (Sid !== undefined && kind !== 'key' && !/^[A-Za-z0-9]*$/.test(String(Sid)))
    throw malformed('Statement IDs (SID) must be alpha-numeric.')
  const owned = kind === 'identity' || kind === 'session'
  if (owned === (Principal !== undefined))
    throw malformed(
      owned ? 'Policy document should not specify a principal.' : 'Missing required field Principal',
    )
  return {
    allows: Effect === 'Allow',
    actions: parseActions(statement),
    resources: parseResources(statement, kind, hasVariables),
    principals: owned ? [] : parsePrincipals(Principal),
    conditions: Condition === undefined ? [] : parseConditions(Condition, hasVariables),
    hasVariables,
  }
}

function parseActions(statement: Record<string, unknown>): Statement['actions'] {
  const { patterns, except } = eitherOf(statement, 'Action', 'NotAction')
  if (patterns.some((action) => action !== '*' && !/^[a-z0-9-]+:[A-Za-z*?]+$/i.test(action)))
    throw malformed('Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc.')
  return { patterns: patterns.map((action) => action.toLowerCase()), except }
}

function parseResources(
  statement: Record<string, unknown>,
  kind: PolicyKind,
  hasVariables: boolean,
): Statement['resources'] {
  if (kind === 'trust') {
    if ('Resource' in statement || 'NotResource' in statement)
      throw malformed('Has prohibited field Resource')
    return { patterns: ['*'], except: false }
  }
  const { patterns, except } = eitherOf(statement, 'Resource', 'NotResource')
  if (patterns.some((resource) => resource !== '*' && !/^arn:[^:]+:[^:]+:/.test(resource)))
    throw malformed('Resource must be in ARN format or "*".')
  if (hasVariables) patterns.forEach(checkVariables)
  return { patterns, except }
}

function eitherOf(
  statement: Record<string, unknown>,
  name: string,
  opposite: string,
): { patterns: string[]; except: boolean } {
  if (name in statement === opposite in statement) throw malformed('Syntax errors in policy.')
  const except = opposite in statement
  return { patterns: textsOf(statement[except ? opposite : name]), except }
}

/** A service is never the caller here. */
function parsePrincipals(principal: unknown): string[] {
  if (principal === '*') return ['*']
  if (typeof principal !== 'object' || principal === null) throw malformed('Invalid principal in policy')
  const { AWS, Service, Federated, CanonicalUser, ...unknown } = principal as Record<string, unknown>
  if (Object.keys(unknown).length > 0) throw malformed('Invalid principal in policy')
  for (const other of [Service, Federated, CanonicalUser]) if (other !== undefined) textsOf(other)
  const names = AWS === undefined ? [] : textsOf(AWS)
  if (names.some((name) => !PRINCIPAL.test(name)))
    throw malformed(`Invalid principal in policy: "AWS":"${names.join()}"`)
  // Identity providers are named by their ARN, as AssumeRoleWithWebIdentity finds them.
  return Federated === undefined ? names : [...names, ...textsOf(Federated)]
}

function textsOf(value: unknown): string[] {
  const texts: unknown[] = Array.isArray(value) ? value : [value]
  if (texts.length === 0 || texts.some((text) => typeof text !== 'string'))
    throw malformed('Syntax errors in policy.')
  return texts as string[]
}

function readObject(text: string): Record<string, unknown> {
  try {
    const document: unknown = JSON.parse(text)
    if (typeof document === 'object' && document !== null && !Array.isArray(document))
      return document as Record<string, unknown>
  } catch {
    // Invalid JSON gets the same answer.
  }
  throw malformed('This policy contains invalid Json')
}

function malformed(message: string): AwsError {
  return AwsError.coded('MalformedPolicyDocument', message)
}
