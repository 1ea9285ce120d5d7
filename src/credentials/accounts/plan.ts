/**
 * What the conditions of SecretsSettings say, from what was tried in the account: with the words of AWS and what to change. And the rest
 * of the status: what the owner pastes into the account.
 */
import type {
  ConnectedAccount,
  SecretsSettings,
  SecretsSettingsStatus,
  SettingsStall,
} from '../../apis/secrets-settings.ts'
import { type ConditionUpdate, mergeConditions } from '../../kube/status.ts'
import { awsScopeOf, organizationPath, parseRoleArn } from '../aws/names.ts'
import {
  ASSUME_STATEMENT,
  ENCRYPT_STATEMENT,
  LIST_STATEMENT,
  NEVER_READ_STATEMENT,
  policyText,
  readerPolicy,
  TAG_STATEMENT,
  trustPolicy,
  WRITE_STATEMENT,
  writerPolicy,
} from '../aws/policies.ts'
import { type CloudFailure, type CloudResult, failureText } from '../cloud.ts'

/** Absent results: not tried, since an earlier step failed. */
export type ProbeResults = {
  identify: CloudResult<{ account: string; arn: string }>
  put?: CloudResult<true> | undefined
  tags?: CloudResult<void> | undefined
  list?: CloudResult<void> | undefined
  remove?: CloudResult<void> | undefined
  /** Operations that were not refused, such as `ssm:GetParameter`, and the code with which one was. */
  readable?: CloudResult<{ operations: readonly string[]; code?: string | undefined }> | undefined
  otherId?: CloudResult<{ refused: boolean; code?: string | undefined }> | undefined
}

export type ConnectionView = {
  /** A problem that prevents any attempt. */
  problem?: { reason: SettingsStall; message: string } | undefined
  roleArn?: string | undefined
  externalId: string
  principal?: string | undefined
  /** Absent: not tried in this pass. */
  results?: ProbeResults | undefined
  /** Previous conditions, if they are of the same spec: a transient failure does not undo them. */
  before?: readonly ConditionUpdate[] | undefined
  /** Whether an account that can read is refused, as configured. */
  requireWriteOnly: boolean
}

export type ConnectionAssessment = {
  findings: ConditionUpdate[]
  ready: boolean
  /** The role can be assumed and writes: the account becomes `status.connected`. */
  connected: boolean
  warning?: { reason: string; message: string } | undefined
}

export function assessConnection(view: ConnectionView): ConnectionAssessment {
  const reachable = held(view, reachableFinding(view))
  const isReached = reachable.status === 'True'
  const writeOnly = isReached ? held(view, writeOnlyFinding(view)) : unknown('WriteOnly')
  const enforced = isReached ? held(view, enforcedFinding(view)) : unknown('ExternalIdEnforced')
  const needed = [reachable, enforced, ...(view.requireWriteOnly ? [writeOnly] : [])]
  const stall = stallOf(view, needed)
  const ready = stall === undefined && needed.every(({ status }) => status === 'True')
  const waits = transient(view, needed)
  return {
    findings: [
      readyFinding(ready, stall ?? waits, writeOnly),
      reconcilingFinding(stall ? undefined : waits),
      stalledFinding(stall),
      reachable,
      writeOnly,
      enforced,
    ],
    ready,
    connected: isReached,
    ...(writeOnly.status === 'False' ? { warning: writeOnly } : {}),
  }
}

type Explanation = { reason: string; message: string }

/** A transient failure keeps the previous finding; a result replaces it. A pass without a probe changes nothing. */
function held({ before, problem, results }: ConnectionView, finding: ConditionUpdate): ConditionUpdate {
  if (finding.status !== 'Unknown' || finding.reason === 'CheckFailed' || problem) return finding
  const isKnown = ({ status, reason }: ConditionUpdate) =>
    status !== 'Unknown' || (results === undefined && reason !== 'NotChecked' && reason !== 'Connecting')
  const known = before?.find((one) => one.type === finding.type && isKnown(one))
  return known
    ? { type: known.type, status: known.status, reason: known.reason, message: known.message }
    : finding
}

function unknown(type: string): ConditionUpdate {
  return {
    type,
    status: 'Unknown',
    reason: 'NotChecked',
    message: 'It was not tried: the account is not reached.',
  }
}

function reachableFinding(view: ConnectionView): ConditionUpdate {
  const type = 'Reachable'
  const { results, roleArn, problem } = view
  if (problem) return { type, status: 'Unknown', reason: 'NotChecked', message: 'It was not tried.' }
  if (roleArn === undefined) {
    const message = view.principal === undefined ? `${IDENTITY_FIRST} ${ROLE_REQUIRED}` : ROLE_REQUIRED
    return { type, status: 'False', reason: 'RoleRequired', message }
  }
  if (results === undefined) return { type, status: 'Unknown', ...CONNECTING }
  const { failure, value } = results.identify
  if (failure) return { type, ...identifyFailed(view, failure) }
  const wanted = parseRoleArn(roleArn)?.account
  if (value.account !== wanted) {
    const message = `The session is in account ${value.account}, the role in ${wanted}. The operator's endpoints of AWS are not those of this account.`
    return { type, status: 'False', reason: 'WrongAccount', message }
  }
  if (results.put === undefined) return { type, status: 'Unknown', ...CONNECTING }
  if (results.put.failure) return { type, ...putFailed(results.put.failure) }
  const missing = rightMissing(results)
  if (missing) return { type, ...missing }
  const message = `Davit writes as ${value.arn}.`
  return { type, status: 'True', reason: 'Connected', message }
}

const CONNECTING = { reason: 'Connecting', message: 'The account is being tried.' }
const ROLE_REQUIRED =
  'Make a role with status.trustPolicy as its trust policy and status.writerPolicy as its permissions, and put its ARN into spec.roleArn.'
const IDENTITY_FIRST =
  'Davit does not know who it is in AWS, so that there may be no status.trustPolicy yet: whoever runs Davit gives it an identity (aws.identity of the chart) or names it (DAVIT_OPERATOR_PRINCIPAL_ARN).'

type Finding = Omit<ConditionUpdate, 'type'>

function identifyFailed({ roleArn, externalId, principal }: ConnectionView, failure: CloudFailure): Finding {
  if (failure.remedy === 'retry') return unavailable(failure)
  if (failure.remedy === 'spec') return refused('SpecRefused', failure, 'Correct the spec.')
  const who = principal ?? "Davit's identity"
  return refused(
    'RoleRefused',
    failure,
    `Davit may not assume ${roleArn}. The role must exist, and its trust policy must allow ${who} sts:AssumeRole with the external id ${externalId} (${ASSUME_STATEMENT}) and sts:TagSession (${TAG_STATEMENT}): paste status.trustPolicy.`,
  )
}

function putFailed(failure: CloudFailure): Finding {
  if (failure.remedy === 'retry') return unavailable(failure)
  if (/^(InvalidKeyId|KMS)/i.test(failure.code))
    return refused(
      'KeyRefused',
      failure,
      `The KMS key must exist in the region, be enabled and symmetric, and its policy must let the role use it (${ENCRYPT_STATEMENT} of status.writerPolicy).`,
    )
  if (failure.remedy === 'spec') return refused('SpecRefused', failure, 'Correct the spec.')
  return refused(
    'WriteRefused',
    failure,
    `The role may not write: it needs ssm:PutParameter, ssm:AddTagsToResource, and kms:Encrypt of the key. Paste status.writerPolicy with its statements ${WRITE_STATEMENT} and ${ENCRYPT_STATEMENT}, and look for a policy of the organization or a permissions boundary that denies it.`,
  )
}

/** Rights that Davit needs in addition to writing. */
const RIGHTS = [
  { tried: 'tags', action: 'ssm:ListTagsForResource', statement: WRITE_STATEMENT },
  { tried: 'list', action: 'ssm:DescribeParameters', statement: LIST_STATEMENT },
  { tried: 'remove', action: 'ssm:DeleteParameter', statement: WRITE_STATEMENT },
] as const

function rightMissing(results: ProbeResults): Finding | undefined {
  for (const { tried, action, statement } of RIGHTS) {
    const failure = results[tried]?.failure
    if (failure?.remedy === 'permissions')
      return refused(
        'RightMissing',
        failure,
        `The role may write, and ${action} is refused. Paste status.writerPolicy, whose statement ${statement} allows it, and look for a policy of the organization or a permissions boundary that denies it.`,
      )
    if (failure?.remedy === 'spec') return refused('SpecRefused', failure, `It came of ${action}.`)
  }
  return undefined
}

function refused(reason: SettingsStall, failure: CloudFailure, advice: string): Finding {
  return { status: 'False', reason, message: `${failureText(failure)}. ${advice}` }
}

function unavailable(failure: CloudFailure): Finding {
  return {
    status: 'Unknown',
    reason: 'CloudUnavailable',
    message: `${failureText(failure)}. Davit tries again.`,
  }
}

/** For a failure that neither proves nor disproves. */
function checkFailed(failure: CloudFailure): Finding {
  if (failure.remedy === 'retry') return unavailable(failure)
  return { status: 'Unknown', reason: 'CheckFailed', message: `${failureText(failure)}. It is not known.` }
}

function writeOnlyFinding({ results }: ConnectionView): ConditionUpdate {
  const type = 'WriteOnly'
  if (!results?.readable) return unknown(type)
  const { failure, value } = results.readable
  if (failure) return { type, ...checkFailed(failure) }
  if (value.operations.length === 0) {
    const message = `The role was refused every way of reading what it writes${value.code ? ` (${value.code})` : ''}.`
    return { type, status: 'True', reason: 'ReadsRefused', message }
  }
  const message = `The role can read the secrets: ${value.operations.join(', ')}. Remove what allows it, or add the statement ${NEVER_READ_STATEMENT} of status.writerPolicy, which denies it whatever else the role has.`
  return { type, status: 'False', reason: 'CanRead', message }
}

function enforcedFinding({ results, externalId }: ConnectionView): ConditionUpdate {
  const type = 'ExternalIdEnforced'
  if (!results?.otherId) return unknown(type)
  const { failure, value } = results.otherId
  if (failure) return { type, ...checkFailed(failure) }
  if (value.refused) {
    const message = `Another external id is refused${value.code ? ` (${value.code})` : ''}.`
    return { type, status: 'True', reason: 'OtherIdRefused', message }
  }
  const message = `The role can be assumed with another external id, on behalf of another organization. Add the condition StringEquals sts:ExternalId ${externalId} to every statement of its trust policy that allows sts:AssumeRole: paste status.trustPolicy.`
  return { type, status: 'False', reason: 'OtherIdAccepted', message }
}

function stallOf({ problem }: ConnectionView, needed: readonly ConditionUpdate[]): Explanation | undefined {
  return problem ?? needed.find(({ status }) => status === 'False')
}

/** What will be known later, or failed transiently. */
function transient(
  { results, problem }: ConnectionView,
  needed: readonly ConditionUpdate[],
): Explanation | undefined {
  if (problem) return undefined
  const tries = [results?.identify, results?.put, results?.readable, results?.otherId]
  const failure = tries.find((tried) => tried?.failure?.remedy === 'retry')?.failure
  if (failure) return unavailable(failure)
  const unknown = needed.find(({ status }) => status === 'Unknown')
  return unknown?.reason === 'CloudUnavailable' ? explain(unknown) : unknown && CONNECTING
}

function readyFinding(
  ready: boolean,
  why: Explanation | undefined,
  writeOnly: ConditionUpdate,
): ConditionUpdate {
  const type = 'Ready'
  if (!ready) return { type, status: 'False', ...explain(why ?? CONNECTING) }
  const warning = writeOnly.status === 'False' ? ` Warning: ${writeOnly.message}` : ''
  return { type, status: 'True', reason: 'Connected', message: `Secrets can be saved.${warning}` }
}

function reconcilingFinding(waits: Explanation | undefined): ConditionUpdate {
  const type = 'Reconciling'
  if (waits) return { type, status: 'True', ...explain(waits) }
  return { type, status: 'False', reason: 'UpToDate', message: 'The status speaks of the current spec.' }
}

function stalledFinding(stall: Explanation | undefined): ConditionUpdate {
  const type = 'Stalled'
  if (stall) return { type, status: 'True', ...explain(stall) }
  return { type, status: 'False', reason: 'NothingToMend', message: 'Nothing waits for somebody to act.' }
}

/** Without the type and status of a finding. */
function explain({ reason, message }: Explanation): Explanation {
  return { reason, message }
}

export type SettingsFacts = {
  settings: SecretsSettings
  prefix: string
  externalId: string
  /** Named by the trust policy; absent while unknown. */
  principal?: string | undefined
  assessment: ConnectionAssessment
  tried: boolean
  now: number
}

export function settingsStatus(facts: SettingsFacts): SecretsSettingsStatus {
  const { settings, externalId, assessment, now } = facts
  const { metadata, spec, status } = settings
  const organization = metadata.namespace ?? ''
  const generation = metadata.generation ?? 1
  const account = spec.roleArn === undefined ? undefined : parseRoleArn(spec.roleArn)?.account
  const checkedAt = facts.tried ? new Date(now).toISOString() : status?.checkedAt
  const connected = assessment.connected ? connectedTo(settings) : status?.connected
  return {
    externalId,
    ...(account === undefined ? {} : { account }),
    parameterPrefix: organizationPath({ prefix: facts.prefix, organization }),
    ...(connected === undefined ? {} : { connected }),
    ...policiesOf(facts, organization, account),
    ...(checkedAt === undefined ? {} : { checkedAt }),
    observedGeneration: generation,
    conditions: mergeConditions(status?.conditions, assessment.findings, { now, generation }),
  }
}

export function connectedTo({ spec }: SecretsSettings): ConnectedAccount | undefined {
  const { roleArn, region, kmsKeyId } = spec
  if (roleArn === undefined) return undefined
  return { roleArn, region, ...(kmsKeyId === undefined ? {} : { kmsKeyId }) }
}

function policiesOf(
  { settings, prefix, externalId, principal }: SettingsFacts,
  organization: string,
  account: string | undefined,
): Pick<SecretsSettingsStatus, 'trustPolicy' | 'writerPolicy' | 'readerPolicy'> {
  const { region, kmsKeyId } = settings.spec
  // Without a role the account is unknown: `*`, which the owner may narrow.
  const scope = { awsScope: awsScopeOf(region, account ?? '*'), prefix, organization, kmsKeyId }
  return {
    ...trustPolicyOf(settings, principal, externalId),
    writerPolicy: policyText(writerPolicy(scope)),
    readerPolicy: policyText(readerPolicy(scope)),
  }
}

/** While the principal is unknown, the previous policy stands. */
function trustPolicyOf(
  { status }: SecretsSettings,
  principal: string | undefined,
  externalId: string,
): Pick<SecretsSettingsStatus, 'trustPolicy'> {
  if (principal !== undefined) return { trustPolicy: policyText(trustPolicy({ principal, externalId })) }
  const before = status?.externalId === externalId ? status.trustPolicy : undefined
  return before === undefined ? {} : { trustPolicy: before }
}
