import { createHash } from 'node:crypto'
import {
  type BakeFailureCode,
  type BakeOrder,
  MAX_ORDER_BYTES,
  ORDER_VARIABLE,
  type OrderedCredential,
  OUTPUT_PATH,
  TMPFS_PATH,
} from '../../apis/bake.ts'
import {
  type BoxTemplate,
  type BoxTemplateSpec,
  boxTemplateKind,
  TEMPLATE_LABEL,
} from '../../apis/box-template.ts'
import { CREDENTIAL_PREFIX } from '../../apis/ids.ts'
import { API_VERSION } from '../../apis/meta.ts'
import type { RegistryCredential } from '../../apis/registry-credential.ts'
import { parseEcrHost, parseRegistryHost } from '../../apis/registry-host.ts'
import { encodeBase32 } from '../../lib/text.ts'
import { type ImageReference, imageName, parseImageReference } from '../image-reference.ts'
import { BAKE_CONTAINER } from './outcome.ts'

const HASH_CHARACTERS = 8
/** A label has no more, and the Job's name becomes one of its pods. */
const MAX_NAME = 63

/** The same for the same bake, and for no other. @param number of the bakes of the template, this one included */
export function bakeName(of: {
  template: string
  uid: string
  generation: number
  rebake: string | undefined
  number: number
}): string {
  const { template, uid, generation, rebake = '', number } = of
  const hash = createHash('sha256')
    .update(JSON.stringify([uid, generation, rebake, number]))
    .digest()
  const start = template.slice(0, MAX_NAME - HASH_CHARACTERS - 1).replace(/-+$/, '')
  return `${start}-${encodeBase32(hash, HASH_CHARACTERS)}`
}

/**
 * The Job of a bake. Its pod runs under `restricted` pod security, has no token for the API server, and tells its result in its
 * termination message. It tries once: what helps by being repeated is repeated by the plan (bake-plan.ts).
 */

/** What the operator decides for all bakes. */
export type BakeSettings = {
  image: string
  deadlineSeconds: number
  ttlSeconds: number
  /** Quantities of Kubernetes, such as 500m and 512Mi. */
  cpu: string
  memory: string
  /** Room for images where there is no claim. */
  scratch: string
  /** Hosts that may ask for a login besides the registries themselves. */
  realms: readonly string[]
  /** Whom bakes trust besides the known ones. */
  ca?: BakeCa | undefined
  /** Variables that tell the SDK of AWS where to go, by their names. */
  awsEndpoints: Readonly<Record<string, string | undefined>>
}

/** Certificates in PEM form, under this key of a ConfigMap that each organization has under the same name. */
export type BakeCa = { configMap: string; key: string }

/** Annotation of a ServiceAccount: the role that its pods may assume (IRSA). */
export const ROLE_ARN_ANNOTATION = 'eks.amazonaws.com/role-arn'

/** On the Jobs and pods of bakes, beside the name of the template: whatever else carries that one is not of Davit. */
const BAKE_LABELS = { 'app.kubernetes.io/name': 'davit-bake', 'app.kubernetes.io/managed-by': 'davit' }

/** A label selector of Jobs and pods. @param template absent: those of all templates */
export function bakeSelector(template?: string): string {
  const own = Object.entries(BAKE_LABELS).map(([label, value]) => `${label}=${value}`)
  return [template === undefined ? TEMPLATE_LABEL : `${TEMPLATE_LABEL}=${template}`, ...own].join(',')
}

/** Whether these are the labels of a bake of this template. */
export function hasBakeLabels(
  labels: Readonly<Record<string, string>> | undefined,
  template: string,
): boolean {
  const own = Object.entries({ ...BAKE_LABELS, [TEMPLATE_LABEL]: template })
  return own.every(([label, value]) => labels?.[label] === value)
}

/** Nobody of the node, and nobody of the image either. */
const USER = 65_532
/** A bake that takes too long ends itself, with words; this is what it may take to be scheduled, and to end. */
const GRACE_SECONDS = 900

/** So long the Job of a bake may be active. */
export function activeSeconds({ deadlineSeconds }: Pick<BakeSettings, 'deadlineSeconds'>): number {
  return deadlineSeconds + GRACE_SECONDS
}
const TERMINATION_SECONDS = 30
/** Not where the webhook of EKS puts its own: it leaves alone what has these variables. */
const TOKEN_FOLDER = '/var/run/secrets/davit.dev/aws'
const TOKEN_SECONDS = 3600
const CA_FOLDER = '/etc/davit/ca'
const CA_FILE = 'ca.crt'

export function buildBakeOrder(
  { metadata, spec }: BoxTemplate,
  bake: { name: string; services: readonly PreparedService[]; startedAt?: string | undefined },
  { realms, deadlineSeconds }: BakeSettings,
): BakeOrder {
  const { namespace = '', name, uid } = metadata
  return {
    template: { namespace, name, uid },
    bake: bake.name,
    services: bake.services.map(({ name, image, credential }) => ({
      name,
      image,
      ...(credential === undefined ? {} : { credential }),
    })),
    output: spec.output === undefined ? { kind: 'none' } : { kind: 'layout', path: OUTPUT_PATH },
    ...(bake.startedAt === undefined ? {} : { orderedAt: bake.startedAt }),
    ...(spec.platform === undefined ? {} : { platform: spec.platform }),
    realms: [...realms],
    deadlineSeconds,
  }
}

export type BakeJobOptions = {
  template: BoxTemplate
  order: BakeOrder
  settings: BakeSettings
  /** Of the ServiceAccount's annotation. */
  roleArn?: string | undefined
}

/** @throws RangeError when the order is too long, which the limits of its parts do not let it be */
export function buildBakeJob({ template, order, settings, roleArn }: BakeJobOptions) {
  const { metadata, spec } = template
  const { namespace = '', name, uid } = metadata
  const labels = { ...BAKE_LABELS, [TEMPLATE_LABEL]: name }
  const owner = { apiVersion: API_VERSION, kind: boxTemplateKind.kind, name, uid, controller: true }
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { namespace, name: order.bake, labels, ownerReferences: [owner] },
    spec: {
      backoffLimit: 0,
      activeDeadlineSeconds: activeSeconds(settings),
      ttlSecondsAfterFinished: settings.ttlSeconds,
      template: {
        // A mesh would put a container beside the bake that does not end with it.
        metadata: {
          labels: { ...labels, 'sidecar.istio.io/inject': 'false' },
          annotations: { 'linkerd.io/inject': 'disabled' },
        },
        spec: podSpec({
          serviceAccount: spec.instanceRole?.serviceAccountName,
          claim: spec.output?.persistentVolumeClaim,
          order,
          settings,
          roleArn,
        }),
      },
    },
  }
}

type PodOptions = {
  serviceAccount: string | undefined
  claim: string | undefined
  order: BakeOrder
  settings: BakeSettings
  roleArn: string | undefined
}

function podSpec(options: PodOptions) {
  const { serviceAccount, settings } = options
  const volumes = volumesOf(options)
  return {
    restartPolicy: 'Never',
    ...(serviceAccount === undefined ? {} : { serviceAccountName: serviceAccount }),
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: TERMINATION_SECONDS,
    securityContext: {
      runAsNonRoot: true,
      runAsUser: USER,
      runAsGroup: USER,
      // What makes a volume writable for a user that is nobody.
      fsGroup: USER,
      fsGroupChangePolicy: 'OnRootMismatch',
      seccompProfile: { type: 'RuntimeDefault' },
    },
    containers: [
      {
        name: BAKE_CONTAINER,
        image: settings.image,
        args: ['bake'],
        env: variables(options),
        // Alike, so that the pod is the last one that a node in need ends.
        resources: {
          requests: { cpu: settings.cpu, memory: settings.memory },
          limits: { cpu: settings.cpu, memory: settings.memory },
        },
        securityContext: {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          runAsNonRoot: true,
          capabilities: { drop: ['ALL'] },
          seccompProfile: { type: 'RuntimeDefault' },
        },
        terminationMessagePath: '/dev/termination-log',
        // Never the end of the log: only what the bake itself has left there is read.
        terminationMessagePolicy: 'File',
        volumeMounts: volumes.map(({ volume: { name }, mount }) => ({ name, ...mount })),
      },
    ],
    volumes: volumes.map(({ volume }) => volume),
  }
}

function variables({ order, settings, roleArn }: PodOptions) {
  const text = JSON.stringify(order)
  if (Buffer.byteLength(text) > MAX_ORDER_BYTES) throw new RangeError('the order is too long')
  const identity =
    roleArn === undefined
      ? []
      : [
          { name: 'AWS_ROLE_ARN', value: roleArn },
          { name: 'AWS_WEB_IDENTITY_TOKEN_FILE', value: `${TOKEN_FOLDER}/token` },
        ]
  return [
    { name: ORDER_VARIABLE, value: text },
    { name: 'DAVIT_TMPFS', value: TMPFS_PATH },
    { name: 'TMPDIR', value: '/tmp' },
    { name: 'HOME', value: '/tmp' },
    // Without a role of its own a box has none: never that of the node, which may read what is another organization's.
    { name: 'AWS_EC2_METADATA_DISABLED', value: 'true' },
    ...Object.entries(settings.awsEndpoints).flatMap(([name, value]) =>
      value === undefined ? [] : [{ name, value }],
    ),
    ...(settings.ca === undefined ? [] : [{ name: 'DAVIT_EXTRA_CA_FILE', value: `${CA_FOLDER}/${CA_FILE}` }]),
    ...identity,
  ]
}

/** Auth files lie in memory, and end with the pod. */
function volumesOf({ claim, settings, roleArn }: PodOptions) {
  const output =
    claim === undefined
      ? { name: 'output', emptyDir: { sizeLimit: settings.scratch } }
      : { name: 'output', persistentVolumeClaim: { claimName: claim } }
  const always = [
    { volume: output, mount: { mountPath: OUTPUT_PATH } },
    {
      volume: { name: 'secrets', emptyDir: { medium: 'Memory', sizeLimit: '16Mi' } },
      mount: { mountPath: TMPFS_PATH },
    },
    {
      volume: { name: 'tmp', emptyDir: { medium: 'Memory', sizeLimit: '64Mi' } },
      mount: { mountPath: '/tmp' },
    },
  ]
  return [
    ...always,
    ...(settings.ca === undefined ? [] : [caVolume(settings.ca)]),
    ...(roleArn === undefined ? [] : [tokenVolume()]),
  ]
}

function caVolume({ configMap, key }: BakeCa) {
  return {
    volume: { name: 'ca', configMap: { name: configMap, items: [{ key, path: CA_FILE }] } },
    mount: { mountPath: CA_FOLDER, readOnly: true },
  }
}

function tokenVolume() {
  const token = {
    serviceAccountToken: { audience: 'sts.amazonaws.com', expirationSeconds: TOKEN_SECONDS, path: 'token' },
  }
  return {
    volume: { name: 'aws-token', projected: { sources: [token] } },
    mount: { mountPath: TOKEN_FOLDER, readOnly: true },
  }
}

/** What keeps a bake from being begun, found without a Job (interface §2.2, §7; settled, "Credentials, settings, bakes"). */

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
