/** What keeps a bake from being begun, found without a Job (interface §2.2, §7; settled, "Credentials, settings, bakes"). */

import type { OrderedCredential } from '../../apis/bake-order.ts'
import type { BakeFailureCode } from '../../apis/bake-result.ts'
import type { BoxTemplateSpec } from '../../apis/box-template.ts'
import { parseEcrHost } from '../../apis/ecr-host.ts'
import { CREDENTIAL_PREFIX } from '../../apis/identifiers.ts'
import type { RegistryCredential } from '../../apis/registry-credential.ts'
import { parseRegistryHost } from '../../apis/registry-host.ts'
import { type ImageReference, imageName, parseImageReference } from '../image-reference.ts'
import type { BakeCa } from './bake-job.ts'

export type BakeView = {
  isOrganization: boolean
  /** How many templates it may have, where it has as many that are older. */
  beyond?: number | undefined
  /** DAVIT_BAKE_IMAGE. */
  bakeImage: string | undefined
  spec: BoxTemplateSpec
  /** Those that the services name, by name, as they are now; one that is not there, or is being deleted, is absent. */
  credentials: ReadonlyMap<string, RegistryCredential>
  /** What the spec names and is not there. */
  missing: { serviceAccount: boolean; output: boolean }
  /** What the operator has named to all bakes, as it was found; absent: nothing. */
  ca?: FoundCa | undefined
}

export type FoundCa = BakeCa & { found: 'certificates' | 'no certificates' | 'nothing' | 'refused' }

export type BakeProblem = {
  service?: string | undefined
  code: BakeFailureCode
  /** Names both sides of what does not fit. */
  message: string
  /** It may come to its end without a change of the template. */
  waits: boolean
}

/** A service as a bake is to pull it. */
export type PreparedService = {
  name: string
  image: string
  credential?: OrderedCredential | undefined
  /** Why this credential. */
  why?: string | undefined
}

type Service = BoxTemplateSpec['services'][number]

/** All services, or the first thing that is wrong. */
export function prepareBake(
  view: BakeView,
): { services: PreparedService[]; problem?: never } | { services?: never; problem: BakeProblem } {
  const { isOrganization, beyond, bakeImage, spec } = view
  if (!isOrganization) return wrong('not_an_organization', NO_ORGANIZATION)
  if (beyond !== undefined)
    return wrong(
      'too_many_templates',
      `The organization has ${beyond} older templates, as many as it may have (DAVIT_MAX_TEMPLATES_PER_ORGANIZATION).`,
    )
  const services: PreparedService[] = []
  for (const service of spec.services) {
    const { prepared, problem } = prepareService(view, service)
    if (problem !== undefined) return { problem: { service: service.name, ...problem } }
    services.push(prepared)
  }
  const missing = missingOf(view)
  if (missing) return missing
  if (bakeImage === undefined)
    return wrong('bake_image_missing', 'The operator has set no image for bakes (DAVIT_BAKE_IMAGE).')
  return { services: services.map((service) => withOthers(service, services)) }
}

/** Of what a pod needs to start. */
function missingOf({ spec, missing, ca }: BakeView): { problem: BakeProblem } | undefined {
  if (missing.serviceAccount)
    return wrong(
      'service_account_missing',
      `spec.instanceRole names the ServiceAccount ${spec.instanceRole?.serviceAccountName}, which is not there.`,
      { waits: true },
    )
  if (missing.output)
    return wrong(
      'output_missing',
      `spec.output names the PersistentVolumeClaim ${spec.output?.persistentVolumeClaim}, which is not there.`,
      { waits: true },
    )
  if (ca === undefined || ca.found === 'certificates') return undefined
  return wrong(
    'ca_missing',
    `The operator wants bakes to trust the authorities in the ConfigMap ${ca.configMap} (DAVIT_BAKE_CA_CONFIG_MAP), ${CA_WORDS[ca.found](ca)}.`,
    { waits: true },
  )
}

const CA_WORDS: Readonly<Record<Exclude<FoundCa['found'], 'certificates'>, (ca: BakeCa) => string>> = {
  nothing: () => 'which is not in the namespace',
  'no certificates': ({ key }) => `which has no certificate in PEM form under its key ${key}`,
  refused: () => 'which its controller may not read',
}

/** A login is for a host, so whoever sees two for one host asks which is used where. */
function withOthers(service: PreparedService, all: readonly PreparedService[]): PreparedService {
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
    why: `${why} Other services use ${first}${more} for that host; each has a login of its own.`,
  }
}

const NO_ORGANIZATION = 'The namespace is no organization: it lacks the label davit.dev/organization=true.'

type Found<T> = { prepared: T; problem?: never } | { prepared?: never; problem: Omit<BakeProblem, 'service'> }

function wrong(code: BakeFailureCode, message: string, { waits = false } = {}): { problem: BakeProblem } {
  return { problem: { code, message, waits } }
}

function prepareService({ credentials }: BakeView, service: Service): Found<PreparedService> {
  const { name, kind, image, registryCredentialId: id } = service
  const { reference, problem } = parseImageReference(image)
  if (problem !== undefined) return wrong('image_refused', `image ${problem}.`)
  const plain = { name, image: imageName(reference) }
  if (id === undefined) return { prepared: plain }
  if (kind === 'catalog')
    return wrong(
      'catalog_credential',
      'A service of the kind catalog takes no credential: its image comes from a public registry.',
    )
  const credential = credentials.get(id.slice(CREDENTIAL_PREFIX.length))
  if (credential === undefined)
    return wrong('credential_unknown', `There is no credential ${id} in the namespace.`, { waits: true })
  const mismatch = mismatchOf(id, credential, reference)
  if (mismatch) return mismatch
  const ordered = orderedCredential(id, credential, reference)
  if (ordered === undefined) return notReady(id, credential)
  const why = `The service names ${id}, which is for ${reference.registry}, the host of its image.`
  return { prepared: { ...plain, credential: ordered, why } }
}

/** Of the credential's host against the image's; for ECR the account and the region are named apart. */
function mismatchOf(id: string, { spec }: RegistryCredential, { registry }: ImageReference) {
  const { host } = parseRegistryHost(spec.registry)
  // One that cannot be used is not ready, and says why itself.
  if (host === undefined || host === registry) return undefined
  const mine = parseEcrHost(host).ecr
  const theirs = parseEcrHost(registry).ecr
  const both = `${id} is for ${host}, the image is in ${registry}`
  if (!mine || !theirs) return wrong('host_mismatch', `${both}.`)
  if (mine.account !== theirs.account)
    return wrong('ecr_account_mismatch', `${both}: account ${mine.account} is not ${theirs.account}.`)
  if (mine.region !== theirs.region)
    return wrong('ecr_region_mismatch', `${both}: region ${mine.region} is not ${theirs.region}.`)
  return wrong('host_mismatch', `${both}: two names of one registry, and a login is for one name.`)
}

/** Undefined where it is not ready. */
function orderedCredential(
  id: string,
  credential: RegistryCredential,
  { registry }: ImageReference,
): OrderedCredential | undefined {
  const { metadata, spec, status } = credential
  const { uid, generation } = metadata
  if (readyOf(credential)?.status !== 'True' || isBehind(credential)) return undefined
  const shared = { id, uid, ...(generation === undefined ? {} : { generation }), registry }
  if (spec.type === 'ecr') return { ...shared, type: 'ecr' }
  if (status?.parameter === undefined) return undefined
  const { name, version, region } = status.parameter
  return { ...shared, type: 'token', username: spec.username ?? '', parameter: { name, version, region } }
}

function readyOf({ status }: RegistryCredential) {
  return status?.conditions?.find(({ type }) => type === 'Ready')
}

function isBehind({ metadata, status }: RegistryCredential): boolean {
  return status?.observedGeneration !== metadata.generation
}

function notReady(id: string, credential: RegistryCredential): { problem: BakeProblem } {
  if (isBehind(credential))
    return wrong('credential_not_ready', `${id} was changed, and is looked at.`, { waits: true })
  const ready = readyOf(credential)
  const stalled = credential.status?.conditions?.find(({ type }) => type === 'Stalled')
  const words = ready ? `${ready.reason}: ${ready.message}` : 'it was not looked at yet.'
  return wrong('credential_not_ready', `${id} is not ready: ${words}`, { waits: stalled?.status !== 'True' })
}
