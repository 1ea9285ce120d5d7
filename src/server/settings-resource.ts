import type { SecretsSettings } from '../apis/secrets-settings.ts'
import type { AccountIdentity } from '../credentials/accounts/account-identity.ts'
import { organizationPath } from '../credentials/aws/parameter-name.ts'
import { etagOf } from '../lib/etag.ts'
import { isObserved, NOT_TRIED } from './live-settings.ts'
import type { ConditionSummary, SettingsResource, TaggedSettings } from './ports-secrets-settings.ts'

export type SettingsOwner = { organization: string; uid: string; identity: AccountIdentity }

/** Settings as their owner sees them over REST. @param settings absent: there are none */
export function taggedOf(whose: SettingsOwner, settings: SecretsSettings | undefined): TaggedSettings {
  const { organization, uid, identity } = whose
  const own = {
    externalId: identity.externalIdOf(uid),
    parameterPrefix: organizationPath({ prefix: identity.prefix, organization }),
  }
  if (!settings) return { settings: { ...own, conditions: [] } }
  const { region, roleArn, kmsKeyId } = settings.spec
  const shown: SettingsResource = {
    region,
    ...defined({ roleArn, kmsKeyId }),
    ...own,
    ...statusOf(settings),
    conditions: conditionsOf(settings),
  }
  return { settings: shown, etag: etagOf(settings.metadata) }
}

function statusOf(settings: SecretsSettings): Partial<SettingsResource> {
  const { status } = settings
  if (!status || !isObserved(settings)) return {}
  const { account, trustPolicy, writerPolicy, readerPolicy, checkedAt } = status
  return defined({
    account,
    trustPolicy,
    writerPolicy,
    readerPolicy,
    checkedAt: checkedAt === undefined ? undefined : new Date(checkedAt).toISOString(),
  })
}

/** What was found out with other settings says nothing of these. */
function conditionsOf(settings: SecretsSettings): ConditionSummary[] {
  if (!isObserved(settings)) {
    const { creationTimestamp = '' } = settings.metadata
    return [{ ...NOT_TRIED, lastTransitionTime: new Date(creationTimestamp || 0).toISOString() }]
  }
  return (settings.status?.conditions ?? []).map(({ type, status, reason, message, lastTransitionTime }) => ({
    type,
    status,
    reason,
    message,
    lastTransitionTime,
  }))
}

function defined<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never
}
