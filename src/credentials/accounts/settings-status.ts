/** The status of SecretsSettings: what was found out, and what its owner pastes into the account. */
import type { ConnectedAccount, SecretsSettings, SecretsSettingsStatus } from '../../apis/secrets-settings.ts'
import { mergeConditions } from '../../kube/conditions.ts'
import { awsScopeOf } from '../aws/aws-partition.ts'
import { policyText, readerPolicy, trustPolicy, writerPolicy } from '../aws/connect-policies.ts'
import { organizationPath } from '../aws/parameter-name.ts'
import { parseRoleArn } from '../aws/role-arn.ts'
import type { ConnectionAssessment } from './plan.ts'

export type SettingsFacts = {
  settings: SecretsSettings
  prefix: string
  externalId: string
  /** What the trust policy names; absent while it is not known. */
  principal?: string | undefined
  assessment: ConnectionAssessment
  /** The account was tried in this pass. */
  tried: boolean
  /** Milliseconds since 1970. */
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

/** Undefined without a role. */
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
  // Before the role is known the account is not: `*` stands for it, which the owner may narrow.
  const scope = { awsScope: awsScopeOf(region, account ?? '*'), prefix, organization, kmsKeyId }
  return {
    ...trustPolicyOf(settings, principal, externalId),
    writerPolicy: policyText(writerPolicy(scope)),
    readerPolicy: policyText(readerPolicy(scope)),
  }
}

/** While it is not known whom to name, what was said before stands. */
function trustPolicyOf(
  { status }: SecretsSettings,
  principal: string | undefined,
  externalId: string,
): Pick<SecretsSettingsStatus, 'trustPolicy'> {
  if (principal !== undefined) return { trustPolicy: policyText(trustPolicy({ principal, externalId })) }
  const before = status?.externalId === externalId ? status.trustPolicy : undefined
  return before === undefined ? {} : { trustPolicy: before }
}
