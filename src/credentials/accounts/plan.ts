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
import { type ConditionUpdate, type Finding, mergeConditions, whileTrue } from '../../kube/status.ts'
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
  otherId?: CloudResult<{ refused: boolean; code?: string | undefined }> | undefined
  put?: CloudResult<true> | undefined
  tags?: CloudResult<void> | undefined
  list?: CloudResult<void> | undefined
  remove?: CloudResult<void> | undefined
  /** Operations that were not refused, such as `ssm:GetParameter`, and the code with which one was. */
  readable?: CloudResult<{ operations: readonly string[]; code?: string | undefined }> | undefined
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
  const reachable = held(view, 'Reachable', reachableFinding(view))
  const isReached = reachable.status === 'True'
  const writeOnly = isReached ? held(view, 'WriteOnly', writeOnlyFinding(view)) : NOT_TRIED
  const isAsked = isReached || view.results?.otherId !== undefined
  const enforced = isAsked ? held(view, 'ExternalIdEnforced', enforcedFinding(view)) : NOT_TRIED
  const needed = [reachable, enforced, ...(view.requireWriteOnly ? [writeOnly] : [])]
  const stall = stallOf(view, needed)
  const ready = stall === undefined && needed.every(({ status }) => status === 'True')
  const waits = transient(view, needed)
  return {
    findings: [
      { type: 'Ready', ...readyFinding(ready, stall ?? waits, writeOnly) },
      ...whileTrue('Reconciling', waits && !stall ? explain(waits) : undefined),
      ...whileTrue('Stalled', stall && explain(stall)),
      { type: 'Reachable', ...reachable },
      { type: 'WriteOnly', ...writeOnly },
      { type: 'ExternalIdEnforced', ...enforced },
    ],
    ready,
    connected: isReached,
    warning: writeOnly.status === 'False' ? writeOnly : undefined,
  }
}

type Explanation = { reason: string; message: string }

/** A transient failure keeps the previous finding; a result replaces it. A pass without a probe changes nothing. */
function held({ before, problem, results }: ConnectionView, type: string, finding: Finding): Finding {
  if (finding.status !== 'Unknown' || finding.reason === 'CheckFailed' || problem) return finding
  const isKnown = ({ status, reason }: ConditionUpdate) =>
    status !== 'Unknown' || (results === undefined && reason !== 'NotChecked' && reason !== 'Connecting')
  const known = before?.find((one) => one.type === type && isKnown(one))
  return known ? { status: known.status, ...explain(known) } : finding
}

const NOT_TRIED: Finding = {
  status: 'Unknown',
  reason: 'NotChecked',
  message: 'Not checked, because Davit is not connected to the account.',
}

function reachableFinding(view: ConnectionView): Finding {
  const { results, roleArn, problem } = view
  if (problem)
    return {
      status: 'Unknown',
      reason: 'NotChecked',
      message: `Davit has not checked the account. ${problem.message}`,
    }
  if (roleArn === undefined) {
    const message = view.principal === undefined ? `${IDENTITY_FIRST} ${ROLE_REQUIRED}` : ROLE_REQUIRED
    return { status: 'False', reason: 'RoleRequired', message }
  }
  if (results === undefined) return { status: 'Unknown', ...CONNECTING }
  const { failure, value } = results.identify
  if (failure) return identifyFailed(view, failure)
  const wanted = parseRoleArn(roleArn)?.account
  if (value.account !== wanted) {
    const message = `When Davit assumed the role, AWS returned a session in account ${value.account}, but the role belongs to account ${wanted}. Ask your cluster operator to check the configured AWS endpoints.`
    return { status: 'False', reason: 'WrongAccount', message }
  }
  if (results.put === undefined) return notWritten(results)
  if (results.put.failure) return putFailed(results.put.failure)
  const missing = missingPermission(results)
  if (missing) return missing
  const message = `Davit writes secrets with the role session ${value.arn}.`
  return { status: 'True', reason: 'Connected', message }
}

/** Before it knows that the role rejects other external ids, Davit does not write. */
function notWritten({ otherId }: ProbeResults): Finding {
  if (otherId === undefined) return { status: 'Unknown', ...CONNECTING }
  if (otherId.failure?.remedy === 'retry') return unavailable(otherId.failure)
  const reason = otherId.failure
    ? 'it could not verify that the role rejects other external IDs'
    : 'the role can be assumed with a different external ID'
  const message = `Davit did not test write access because ${reason}. See the condition ExternalIdEnforced.`
  return { status: 'Unknown', reason: 'NotChecked', message }
}

const CONNECTING = { reason: 'Connecting', message: 'Davit is testing the connection to the account.' }
const ROLE_REQUIRED =
  'Create a role with status.trustPolicy as its trust policy and status.writerPolicy as its permissions policy, then set spec.roleArn to the ARN of the role.'
const IDENTITY_FIRST =
  'Davit could not determine its AWS identity, so status.trustPolicy may be missing. Ask your cluster operator to configure aws.identity and aws.region in the Helm chart, or to set DAVIT_OPERATOR_PRINCIPAL_ARN.'

function identifyFailed({ roleArn, externalId, principal }: ConnectionView, failure: CloudFailure): Finding {
  if (failure.remedy === 'retry') return unavailable(failure)
  if (failure.remedy === 'spec') return refused('SpecRefused', failure, 'Correct the spec.')
  const who = principal ?? "Davit's identity"
  return refused(
    'RoleRefused',
    failure,
    `Davit cannot assume the role ${roleArn}. Check that the role exists, and use status.trustPolicy as its trust policy. The policy must allow ${who} to call sts:AssumeRole with the external ID ${externalId} (statement ${ASSUME_STATEMENT}), and sts:TagSession (statement ${TAG_STATEMENT}).`,
  )
}

function putFailed(failure: CloudFailure): Finding {
  if (failure.remedy === 'retry') return unavailable(failure)
  if (/^(InvalidKeyId|KMS)/i.test(failure.code))
    return refused(
      'KeyUnusable',
      failure,
      `The KMS key must exist in the region, and must be enabled and symmetric. The key's policy must allow the role to use the key (statement ${ENCRYPT_STATEMENT} in status.writerPolicy).`,
    )
  if (failure.remedy === 'spec') return refused('SpecRefused', failure, 'Correct the spec.')
  return refused(
    'WriteRefused',
    failure,
    `The role cannot write. It needs ssm:PutParameter, ssm:AddTagsToResource, and kms:Encrypt for the key. Attach status.writerPolicy, whose statements ${WRITE_STATEMENT} and ${ENCRYPT_STATEMENT} allow these actions. If the policy is already attached, check for a service control policy or a permissions boundary that denies these actions.`,
  )
}

/** Rights that Davit needs in addition to writing. */
const RIGHTS = [
  { tried: 'tags', action: 'ssm:ListTagsForResource', statement: WRITE_STATEMENT },
  { tried: 'list', action: 'ssm:DescribeParameters', statement: LIST_STATEMENT },
  { tried: 'remove', action: 'ssm:DeleteParameter', statement: WRITE_STATEMENT },
] as const

function missingPermission(results: ProbeResults): Finding | undefined {
  for (const { tried, action, statement } of RIGHTS) {
    const failure = results[tried]?.failure
    if (failure?.remedy === 'permissions')
      return refused(
        'PermissionMissing',
        failure,
        `The role can write, but ${action} is denied. Attach status.writerPolicy, whose statement ${statement} allows this action. If the policy is already attached, check for a service control policy or a permissions boundary that denies this action.`,
      )
    if (failure?.remedy === 'spec') return refused('SpecRefused', failure, `The failed call was ${action}.`)
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
    message: `${failureText(failure)}. Davit will retry.`,
  }
}

/** For a failure that neither proves nor disproves. */
function checkFailed(failure: CloudFailure): Finding {
  if (failure.remedy === 'retry') return unavailable(failure)
  return {
    status: 'Unknown',
    reason: 'CheckFailed',
    message: `${failureText(failure)}. Davit could not complete the check.`,
  }
}

function writeOnlyFinding({ results }: ConnectionView): Finding {
  if (!results?.readable) return NOT_TRIED
  const { failure, value } = results.readable
  if (failure) return checkFailed(failure)
  if (value.operations.length === 0) {
    const message = `The role cannot read the parameters that it writes: AWS denied every read operation${value.code ? ` (${value.code})` : ''}.`
    return { status: 'True', reason: 'ReadsDenied', message }
  }
  const message = `The role can read the secrets (with ${value.operations.join(', ')}). Remove these permissions, or add the statement ${NEVER_READ_STATEMENT} from status.writerPolicy; this statement overrides the role's other permissions.`
  return { status: 'False', reason: 'CanRead', message }
}

function enforcedFinding({ results, externalId }: ConnectionView): Finding {
  if (!results?.otherId) return NOT_TRIED
  const { failure, value } = results.otherId
  if (failure) return checkFailed(failure)
  if (value.refused) {
    const message = `As expected, AWS rejected an attempt to assume the role with a different external ID${value.code ? ` (${value.code})` : ''}.`
    return { status: 'True', reason: 'OtherExternalIdRejected', message }
  }
  const message = `The role can be assumed with a different external ID, so another organization could use the role through Davit. Use status.trustPolicy as the role's trust policy: every statement that allows sts:AssumeRole must have the condition StringEquals sts:ExternalId ${externalId}.`
  return { status: 'False', reason: 'OtherExternalIdAccepted', message }
}

function stallOf({ problem }: ConnectionView, needed: readonly Finding[]): Explanation | undefined {
  return problem ?? needed.find(({ status }) => status === 'False')
}

/** What will be known later, or failed transiently. */
function transient(
  { results, problem }: ConnectionView,
  needed: readonly Finding[],
): Explanation | undefined {
  if (problem) return undefined
  const tries = [results?.identify, results?.otherId, results?.put, results?.readable]
  const failure = tries.find((tried) => tried?.failure?.remedy === 'retry')?.failure
  if (failure) return unavailable(failure)
  const unknown = needed.find(({ status }) => status === 'Unknown')
  if (unknown?.reason === 'CloudUnavailable') return explain(unknown)
  const failed = needed.find(({ reason }) => reason === 'CheckFailed')
  return unknown && { ...CONNECTING, ...(failed && { message: failed.message }) }
}

function readyFinding(ready: boolean, why: Explanation | undefined, writeOnly: Finding): Finding {
  if (!ready) return { status: 'False', ...explain(why ?? CONNECTING) }
  const warning = writeOnly.status === 'False' ? ` Warning: ${writeOnly.message}` : ''
  return { status: 'True', reason: 'Connected', message: `Davit can store secrets in the account.${warning}` }
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
  return { roleArn, region, kmsKeyId }
}

/** The account that the spec names, if it is also the one that Davit recorded as tested: no other writer of the status can name one. */
export function testedAccount(settings: SecretsSettings): ConnectedAccount | undefined {
  const wanted = connectedTo(settings)
  const tested = settings.status?.connected
  const isTested = (['roleArn', 'region', 'kmsKeyId'] as const).every(
    (part) => wanted?.[part] === tested?.[part],
  )
  return isTested ? wanted : undefined
}

function policiesOf(
  { settings, prefix, externalId, principal }: SettingsFacts,
  organization: string,
  account: string | undefined,
): Pick<SecretsSettingsStatus, 'trustPolicy' | 'writerPolicy' | 'readerPolicy'> {
  const { region, kmsKeyId, repositoryPrefix } = settings.spec
  // Without a role the account is unknown: `*`, which the owner may narrow.
  const awsScope = awsScopeOf(region, account ?? '*')
  const scope = { awsScope, prefix, organization, kmsKeyId, repositoryPrefix }
  const trust = trustPolicyOf(settings, principal, externalId)
  return {
    ...(trust === undefined ? {} : { trustPolicy: trust }),
    writerPolicy: policyText(writerPolicy(scope)),
    readerPolicy: policyText(readerPolicy(scope)),
  }
}

/** While the principal is unknown, the previous policy stands. */
function trustPolicyOf(
  { status }: SecretsSettings,
  principal: string | undefined,
  externalId: string,
): string | undefined {
  if (principal !== undefined) return policyText(trustPolicy({ principal, externalId }))
  return status?.externalId === externalId ? status.trustPolicy : undefined
}
