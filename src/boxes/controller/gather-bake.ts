/** Everything that the next step of a bake is decided on, read live. */

import { readRequest } from '../../apis/annotations.ts'
import type { BoxTemplate } from '../../apis/box-template.ts'
import { REBAKE_ANNOTATION } from '../../apis/box-template.ts'
import { persistentVolumeClaims, serviceAccounts } from '../../apis/core-kinds.ts'
import { CREDENTIAL_PREFIX } from '../../apis/identifiers.ts'
import { objectMeta, type ResourceType } from '../../apis/meta.ts'
import {
  type RegistryCredential,
  registryCredential,
  registryCredentials,
} from '../../apis/registry-credential.ts'
import { credentialState } from '../../credentials/controller/credential-state.ts'
import type { RawObject, ResourceReader } from '../../kube/client.ts'
import { findObject } from '../../kube/find-object.ts'
import { ROLE_ARN_ANNOTATION } from './bake-job.ts'
import { type PreparedService, prepareBake } from './bake-problem.ts'
import { findCa } from './find-ca.ts'
import { listBakeRuns } from './gather.ts'
import type { BakeFacts } from './plan.ts'
import type { TemplateContext } from './template-context.ts'
import { exceedsTemplateQuota } from './template-room.ts'

export type GatheredBake = {
  facts: BakeFacts
  /** None where there is a problem. */
  services: PreparedService[]
  /** The role of the ServiceAccount (IRSA). */
  roleArn: string | undefined
  /** Those that the template names, and what is there of them. */
  names: readonly string[]
  credentials: ReadonlyMap<string, RegistryCredential>
}

/** @throws ApiError */
export async function gatherBake(context: TemplateContext, template: BoxTemplate): Promise<GatheredBake> {
  const { resources, organizations, settings, clock } = context
  const { metadata, spec, status } = template
  const { namespace = '' } = metadata
  const beyond = exceedsTemplateQuota(context.book, template, settings.maxTemplates)
    ? settings.maxTemplates
    : undefined
  const isOff = settings.image === undefined
  // Without an image there is no pod that would need them, and perhaps no right to look.
  const { instanceRole, output } = isOff ? {} : spec
  const now = clock.now()
  const names = credentialNames(template)
  const [credentials, account, claim, ca, runs] = await Promise.all([
    readCredentials(resources, namespace, names),
    readIf(resources, serviceAccounts, { namespace, name: instanceRole?.serviceAccountName }),
    readIf(resources, persistentVolumeClaims, { namespace, name: output?.persistentVolumeClaim }),
    isOff ? undefined : settings.ca && findCa(resources, namespace, settings.ca),
    listBakeRuns(context, template),
  ])
  const { services = [], problem } = prepareBake({
    isOrganization: organizations.get(namespace) !== undefined,
    beyond,
    bakeImage: settings.image,
    spec,
    credentials,
    missing: {
      serviceAccount: instanceRole !== undefined && !account,
      output: output !== undefined && !claim,
    },
    ca,
  })
  const bake = status?.bake
  const createdAt = Date.parse(metadata.creationTimestamp ?? '') || 0
  const facts = {
    now,
    generation: metadata.generation ?? 1,
    request: readRequest(metadata.annotations?.[REBAKE_ANNOTATION], bake?.observedRebake, createdAt),
    credentialState: credentialState(names, credentials),
    problem,
    isOff,
    bake,
    ...runs,
  }
  return { facts, services, roleArn: roleArnOf(account), names, credentials }
}

export function credentialNames({ spec }: BoxTemplate): string[] {
  const ids = spec.services.flatMap(({ registryCredentialId }) => registryCredentialId ?? [])
  return [...new Set(ids)].map((id) => id.slice(CREDENTIAL_PREFIX.length))
}

async function readCredentials(
  resources: ResourceReader,
  namespace: string,
  names: readonly string[],
): Promise<Map<string, RegistryCredential>> {
  const found = await Promise.all(
    names.map((name) => readIf(resources, registryCredentials, { namespace, name })),
  )
  const there = found.flatMap((raw) => (raw ? [registryCredential.parse(raw)] : []))
  return new Map(
    there
      .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
      .map((credential) => [credential.metadata.name, credential]),
  )
}

/** Undefined where nothing is named, or it is not there. @throws ApiError */
async function readIf(
  resources: ResourceReader,
  type: ResourceType,
  { namespace, name }: { namespace: string; name: string | undefined },
): Promise<RawObject | undefined> {
  if (name === undefined) return undefined
  return await findObject(resources, type, { namespace, name })
}

function roleArnOf(account: RawObject | undefined): string | undefined {
  return account && objectMeta.parse(account.metadata).annotations?.[ROLE_ARN_ANNOTATION]
}
