/** SecretsSettings as they are now, and what their conditions say of them. */
import {
  SECRETS_SETTINGS_NAME,
  type SecretsSettings,
  secretsSettings,
  secretsSettingsKind,
  secretsSettingsResource,
} from '../apis/secrets-settings.ts'
import type { RawObject, ResourceReader } from '../kube/client.ts'
import { findObject } from '../kube/find-object.ts'
import { UnreadableError } from '../kube/unreadable-error.ts'
import type { RefusedCondition } from './http/refused-error.ts'

/** Undefined where there are none. Those that are being deleted come too. @throws ApiError */
export async function readRawSettings(
  resources: Pick<ResourceReader, 'get'>,
  organization: string,
): Promise<RawObject | undefined> {
  const ref = { namespace: organization, name: SECRETS_SETTINGS_NAME }
  return await findObject(resources, secretsSettingsResource, ref)
}

/** Undefined where there are none, and of those that are being deleted. @throws ApiError; UnreadableError */
export async function readSettings(
  resources: Pick<ResourceReader, 'get'>,
  organization: string,
): Promise<SecretsSettings | undefined> {
  const raw = await readRawSettings(resources, organization)
  return raw === undefined || raw.metadata.deletionTimestamp !== undefined ? undefined : parseSettings(raw)
}

/** @throws UnreadableError */
export function parseSettings(raw: RawObject): SecretsSettings {
  const { data } = secretsSettings.safeParse(raw)
  if (data) return data
  throw new UnreadableError(secretsSettingsKind.kind, `${raw.metadata.namespace}/${raw.metadata.name}`)
}

/** Whether the status speaks of the spec as it is. */
export function isObserved({ metadata, status }: SecretsSettings): boolean {
  return status !== undefined && status.observedGeneration === metadata.generation
}

/** What is known of the condition with these settings, not with those before. */
export function readyCondition(settings: SecretsSettings): RefusedCondition {
  const held = settings.status?.conditions?.find(({ type }) => type === 'Ready')
  if (!held || !isObserved(settings)) return NOT_TRIED
  const { type, status, reason, message } = held
  return { type, status, reason, message }
}

export const NOT_TRIED: RefusedCondition = {
  type: 'Ready',
  status: 'Unknown',
  reason: 'Connecting',
  message: 'The account has not been tried with these settings yet.',
}
