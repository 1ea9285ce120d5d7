/**
 * Prepares a bake without a Job: resolves the image and the credential of every service, or finds what keeps the bake from starting
 * (interface §2.2, §7, S17).
 */
import type { BakeFailureCode, OrderedCredential } from '../../apis/bake.ts'
import type { BoxTemplateSpec } from '../../apis/box-template.ts'
import { CREDENTIAL_PREFIX } from '../../apis/ids.ts'
import type { RegistryCredential } from '../../apis/registry-credential.ts'
import { parseEcrHost, parseRegistryHost } from '../../apis/registry-host.ts'
import { counted } from '../../lib/text.ts'
import { type ImageReference, imageName, parseImageReference } from '../image-reference.ts'

/** A ConfigMap of every organization and the key under which it has certificates in PEM form. */
export type BakeCa = { configMap: string; key: string }

export type BakeView = {
  isOrganization: boolean
  /** The quota of templates, if this template exceeds it. */
  exceededQuota?: number | undefined
  /** DAVIT_BAKE_IMAGE. */
  bakeImage: string | undefined
  spec: BoxTemplateSpec
  /** The credentials that the services reference, by name, without those that are being deleted. */
  credentials: ReadonlyMap<string, RegistryCredential>
  missing: { serviceAccount: boolean; output: boolean }
  /** The certificate authorities for all bakes, if any are configured. */
  ca?: FoundCa | undefined
}

export type FoundCa = BakeCa & { found: 'certificates' | 'no certificates' | 'nothing' | 'refused' }

export type BakeProblem = {
  service?: string | undefined
  code: BakeFailureCode
  /** Only what the fix of the code, which users read before it, does not say. */
  message: string
  /** Whether it may go away without a change of the template. */
  waits: boolean
}

export type PreparedService = {
  name: string
  image: string
  credential?: OrderedCredential | undefined
  why?: string | undefined
}

export function prepareBake(
  view: BakeView,
): { services: PreparedService[]; problem?: never } | { services?: never; problem: BakeProblem } {
  const { isOrganization, exceededQuota, bakeImage, spec } = view
  if (!isOrganization) return wrong('not_an_organization', 'The label davit.dev/organization is not "true".')
  if (exceededQuota !== undefined)
    return wrong(
      'too_many_templates',
      `The organization already has ${counted(exceededQuota, 'older template')}.`,
    )
  const services: PreparedService[] = []
  for (const service of spec.services) {
    const { prepared, problem } = prepareService(view, service)
    if (problem !== undefined) return { problem: { service: service.name, ...problem } }
    services.push(prepared)
  }
  const missing = missingObject(view)
  if (missing) return missing
  if (bakeImage === undefined) return wrong('bake_image_missing', 'No bake image is configured.')
  return { services: services.map((service) => nameOtherCredentials(service, services)) }
}

function missingObject({ spec, missing, ca }: BakeView): { problem: BakeProblem } | undefined {
  if (missing.serviceAccount)
    return wrong(
      'service_account_missing',
      `spec.instanceRole references the ServiceAccount ${spec.instanceRole?.serviceAccountName}.`,
      { waits: true },
    )
  if (missing.output)
    return wrong(
      'output_missing',
      `spec.output references the PersistentVolumeClaim ${spec.output?.persistentVolumeClaim}.`,
      { waits: true },
    )
  if (ca === undefined || ca.found === 'certificates') return undefined
  const configMap = `ConfigMap ${ca.configMap} (DAVIT_BAKE_CA_CONFIG_MAP)`
  const message = {
    nothing: `The namespace has no ${configMap}.`,
    'no certificates': `The ${configMap} has no PEM certificate under the key ${ca.key}.`,
    refused: `The controller is not allowed to read the ${configMap}.`,
  }[ca.found]
  return wrong('ca_missing', message, { waits: true })
}

/** If several credentials are for one host, users wonder which one is used where. */
function nameOtherCredentials(service: PreparedService, all: readonly PreparedService[]): PreparedService {
  const { credential, why } = service
  if (credential === undefined || why === undefined) return service
  const ofHost = all.flatMap((other) =>
    other.credential?.registry === credential.registry && other.credential.id !== credential.id
      ? [other.credential.id]
      : [],
  )
  const [first, ...others] = [...new Set(ofHost)]
  if (first === undefined) return service
  const more = others.length === 0 ? '' : ` and ${others.length} more`
  return {
    ...service,
    why: `${why} Other services use ${first}${more} for that host; Davit never uses the credential of one service for another.`,
  }
}

function wrong(code: BakeFailureCode, message: string, { waits = false } = {}): { problem: BakeProblem } {
  return { problem: { code, message, waits } }
}

function prepareService(
  { credentials }: BakeView,
  service: BoxTemplateSpec['services'][number],
): { prepared: PreparedService; problem?: never } | { prepared?: never; problem: BakeProblem } {
  const { name, kind, image, registryCredentialId: id } = service
  const { reference, problem } = parseImageReference(image)
  if (problem !== undefined) return wrong('invalid_image', `The image reference ${problem}.`)
  const plain = { name, image: imageName(reference) }
  if (id === undefined) return { prepared: plain }
  if (kind === 'catalog') return wrong('catalog_credential', 'Catalog images come from a public registry.')
  const credential = credentials.get(id.slice(CREDENTIAL_PREFIX.length))
  if (credential === undefined)
    return wrong('credential_unknown', `registryCredentialId is ${id}.`, { waits: true })
  const mismatch = hostMismatch(id, credential, reference)
  if (mismatch) return mismatch
  const ordered = orderedCredential(id, credential, reference)
  if (ordered === undefined) return notReady(id, credential)
  const why = `The service references ${id}, which is for ${reference.registry}, the host of the service's image.`
  return { prepared: { ...plain, credential: ordered, why } }
}

/** Compares the credential's host with the image's. Of ECR hosts, the code tells whether account or region differs. */
function hostMismatch(id: string, { spec }: RegistryCredential, { registry }: ImageReference) {
  const { host } = parseRegistryHost(spec.registry)
  // A credential with an invalid host is not ready, and its own status says why.
  if (host === undefined || host === registry) return undefined
  const mine = parseEcrHost(host).ecr
  const theirs = parseEcrHost(registry).ecr
  const both = `${id} is for ${host}, but the image is in ${registry}.`
  if (!mine || !theirs) return wrong('host_mismatch', both)
  if (mine.account !== theirs.account) return wrong('ecr_account_mismatch', both)
  if (mine.region !== theirs.region) return wrong('ecr_region_mismatch', both)
  return wrong(
    'host_mismatch',
    `${both} Both names refer to the same registry, but a credential is valid only for the name that it was created for.`,
  )
}

function orderedCredential(
  id: string,
  credential: RegistryCredential,
  { registry }: ImageReference,
): OrderedCredential | undefined {
  const { metadata, spec, status } = credential
  const { uid, generation } = metadata
  if (readyCondition(credential)?.status !== 'True' || isBehind(credential)) return undefined
  const shared = { id, uid, generation, registry }
  if (spec.type === 'ecr') return { ...shared, type: 'ecr' }
  if (status?.parameter === undefined) return undefined
  const { name, version, region } = status.parameter
  return { ...shared, type: 'token', username: spec.username ?? '', parameter: { name, version, region } }
}

function readyCondition({ status }: RegistryCredential) {
  return status?.conditions?.find(({ type }) => type === 'Ready')
}

function isBehind({ metadata, status }: RegistryCredential): boolean {
  return status?.observedGeneration !== metadata.generation
}

function notReady(id: string, credential: RegistryCredential): { problem: BakeProblem } {
  if (isBehind(credential)) {
    const message = `Davit has not yet processed the latest change to ${id}.`
    return wrong('credential_not_ready', message, { waits: true })
  }
  const ready = readyCondition(credential)
  const stalled = credential.status?.conditions?.find(({ type }) => type === 'Stalled')
  const message = ready
    ? `The Ready condition of ${id} has the reason ${ready.reason}. ${ready.message}`
    : `Davit has not processed ${id} yet.`
  return wrong('credential_not_ready', message, { waits: stalled?.status !== 'True' })
}
