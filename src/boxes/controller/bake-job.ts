/**
 * The Job of a bake. Its pod runs under the `restricted` pod security standard, has no token for the API server, and reports its result
 * in its termination message. The Job does not retry; plan.ts decides on retries.
 */
import { createHash } from 'node:crypto'
import { type BakeOrder, MAX_ORDER_BYTES, ORDER_VARIABLE, OUTPUT_PATH, TMPFS_PATH } from '../../apis/bake.ts'
import type { BakePodSettings } from '../../apis/bake-pod.ts'
import { type BoxTemplate, boxTemplateKind, TEMPLATE_LABEL } from '../../apis/box-template.ts'
import { API_VERSION } from '../../apis/meta.ts'
import { encodeBase32 } from '../../lib/text.ts'
import { BAKE_CONTAINER } from './outcome.ts'
import type { BakeCa, PreparedService } from './service-credentials.ts'

const HASH_CHARACTERS = 8
/** The longest value of a label: Kubernetes labels the pods with the Job's name. */
const MAX_NAME = 63

/** A name that is unique to this bake and the same on every retry. @param number counts the bakes of the template */
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

export type BakeSettings = BakePodSettings & {
  image: string
  deadlineSeconds: number
  ttlSeconds: number
  /** Kubernetes quantities such as 500m and 512Mi. */
  cpu: string
  memory: string
  /** Size of the volume for images if the template names no claim. */
  scratch: string
  /** Token endpoints that may receive a login, in addition to the registries themselves. */
  realms: readonly string[]
  ca?: BakeCa | undefined
  awsEndpoints: Readonly<Record<string, string | undefined>>
}

/** Labels of Davit's Jobs and pods. Other objects may carry the template label. */
const BAKE_LABELS = { 'app.kubernetes.io/name': 'davit-bake', 'app.kubernetes.io/managed-by': 'davit' }

/** The label selector of Jobs and pods. @param template absent: all templates */
export function bakeSelector(template?: string): string {
  const own = Object.entries(BAKE_LABELS).map(([label, value]) => `${label}=${value}`)
  return [template === undefined ? TEMPLATE_LABEL : `${TEMPLATE_LABEL}=${template}`, ...own].join(',')
}

export function hasBakeLabels(
  labels: Readonly<Record<string, string>> | undefined,
  template: string,
): boolean {
  const own = Object.entries({ ...BAKE_LABELS, [TEMPLATE_LABEL]: template })
  return own.every(([label, value]) => labels?.[label] === value)
}

/** The user of the image that exists neither there nor on the node. */
const USER = 65_532
/** Time for scheduling and for ending. The bake enforces its own deadline, since it can then report why it ended. */
const GRACE_SECONDS = 900

const TERMINATION_SECONDS = 30
/** Differs from the path of the EKS webhook, which skips containers that have these variables. */
const TOKEN_FOLDER = '/var/run/secrets/davit.dev/aws'
const TOKEN_SECONDS = 3600
const CA_FOLDER = '/etc/davit/ca'
const CA_FILE = 'ca.crt'

export function activeSeconds({ deadlineSeconds }: Pick<BakeSettings, 'deadlineSeconds'>): number {
  return deadlineSeconds + GRACE_SECONDS
}

export function buildBakeOrder(
  { metadata, spec }: BoxTemplate,
  bake: { name: string; services: readonly PreparedService[]; startedAt?: string | undefined },
  { realms, deadlineSeconds }: BakeSettings,
): BakeOrder {
  const { namespace = '', name, uid } = metadata
  return {
    template: { namespace, name, uid },
    bake: bake.name,
    services: bake.services.map(({ name, image, credential }) => ({ name, image, credential })),
    output: spec.output === undefined ? { kind: 'none' } : { kind: 'layout', path: OUTPUT_PATH },
    orderedAt: bake.startedAt,
    platform: spec.platform,
    realms: [...realms],
    deadlineSeconds,
  }
}

type BakeJobOptions = {
  template: BoxTemplate
  order: BakeOrder
  settings: BakeSettings
  roleArn?: string | undefined
}

/** @throws RangeError if the order is too long, which the limits of its parts prevent */
export function buildBakeJob(options: BakeJobOptions) {
  const { template, order, settings } = options
  const { podLabels, podAnnotations } = settings
  const { namespace = '', name, uid } = template.metadata
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
        // The sidecar of a service mesh would not end with the bake.
        metadata: {
          labels: { ...podLabels, ...labels, 'sidecar.istio.io/inject': 'false' },
          annotations: { ...podAnnotations, 'linkerd.io/inject': 'disabled' },
        },
        spec: podSpec(options),
      },
    },
  }
}

function podSpec(options: BakeJobOptions) {
  const { settings } = options
  const { instanceRole } = options.template.spec
  const volumes = volumesWithMounts(options)
  const securityContext = podSecurityContext(settings)
  const { seccompProfile } = securityContext
  return {
    restartPolicy: 'Never',
    ...(instanceRole === undefined ? {} : { serviceAccountName: instanceRole.serviceAccountName }),
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: TERMINATION_SECONDS,
    ...placement(settings),
    securityContext,
    containers: [
      {
        name: BAKE_CONTAINER,
        image: settings.image,
        ...(settings.imagePullPolicy === undefined ? {} : { imagePullPolicy: settings.imagePullPolicy }),
        args: ['bake'],
        env: environment(options),
        resources: { requests: resources(options), limits: resources(options) },
        securityContext: {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          runAsNonRoot: true,
          capabilities: { drop: ['ALL'] },
          ...(seccompProfile === undefined ? {} : { seccompProfile }),
        },
        terminationMessagePath: '/dev/termination-log',
        // Never falls back to the end of the log, which the bake does not control.
        terminationMessagePolicy: 'File',
        volumeMounts: volumes.map(({ volume: { name }, mount }) => ({ name, ...mount })),
      },
    ],
    volumes: volumes.map(({ volume }) => volume),
  }
}

type PodSecurityContext = NonNullable<BakePodSettings['podSecurityContext']>

const OWN_SECURITY_CONTEXT: PodSecurityContext = {
  runAsNonRoot: true,
  runAsUser: USER,
  runAsGroup: USER,
  // Makes the volumes writable for this user.
  fsGroup: USER,
  fsGroupChangePolicy: 'OnRootMismatch',
  seccompProfile: { type: 'RuntimeDefault' },
}

type Removed<T> = { [Field in keyof T]?: Exclude<T[Field], null> }

/** With the changes of the cluster operator, which remove the fields that are null. */
function podSecurityContext({ podSecurityContext: changes }: BakePodSettings): Removed<PodSecurityContext> {
  const fields = Object.entries({ ...OWN_SECURITY_CONTEXT, ...changes }).filter(([, value]) => value !== null)
  return Object.fromEntries(fields)
}

/** Where the pod runs, and with which Secrets its image is pulled. What is empty is left out, as by the API server. */
function placement(settings: BakePodSettings) {
  const { imagePullSecrets = [], nodeSelector = {}, tolerations = [], affinity = {} } = settings
  const { priorityClassName } = settings
  return {
    ...(imagePullSecrets.length === 0
      ? {}
      : { imagePullSecrets: imagePullSecrets.map((name) => ({ name })) }),
    ...(Object.keys(nodeSelector).length === 0 ? {} : { nodeSelector }),
    ...(tolerations.length === 0 ? {} : { tolerations }),
    ...(Object.keys(affinity).length === 0 ? {} : { affinity }),
    ...(priorityClassName === undefined ? {} : { priorityClassName }),
  }
}

/** Disk of the node for the log, which is all that a bake with a claim writes there. */
const LOG_SPACE = '256Mi'

/**
 * Requests and limits are equal, so the pod is among the last that a node evicts. All that it uses is named, since a quota may require
 * that, and the scheduler finds a node with room for the images.
 */
function resources({ template, settings: { cpu, memory, scratch } }: BakeJobOptions) {
  return { cpu, memory, 'ephemeral-storage': template.spec.output === undefined ? scratch : LOG_SPACE }
}

function environment({ order, settings, roleArn }: BakeJobOptions) {
  const text = JSON.stringify(order)
  if (Buffer.byteLength(text) > MAX_ORDER_BYTES) throw new RangeError('the bake request is too large')
  return [
    { name: ORDER_VARIABLE, value: text },
    { name: 'DAVIT_TMPFS', value: TMPFS_PATH },
    { name: 'TMPDIR', value: '/tmp' },
    { name: 'HOME', value: '/tmp' },
    // Never use the role of the node, which may read secrets of other organizations.
    { name: 'AWS_EC2_METADATA_DISABLED', value: 'true' },
    ...Object.entries(settings.awsEndpoints).flatMap(([name, value]) =>
      value === undefined ? [] : [{ name, value }],
    ),
    ...(settings.ca === undefined ? [] : [{ name: 'DAVIT_EXTRA_CA_FILE', value: `${CA_FOLDER}/${CA_FILE}` }]),
    ...(roleArn === undefined
      ? []
      : [
          { name: 'AWS_ROLE_ARN', value: roleArn },
          { name: 'AWS_WEB_IDENTITY_TOKEN_FILE', value: `${TOKEN_FOLDER}/token` },
        ]),
  ]
}

function volumesWithMounts({ template, settings, roleArn }: BakeJobOptions) {
  const { output } = template.spec
  const storage =
    output === undefined
      ? { emptyDir: { sizeLimit: settings.scratch } }
      : { persistentVolumeClaim: { claimName: output.persistentVolumeClaim } }
  return [
    { volume: { name: 'output', ...storage }, mount: { mountPath: OUTPUT_PATH } },
    {
      volume: { name: 'secrets', emptyDir: { medium: 'Memory', sizeLimit: '16Mi' } },
      mount: { mountPath: TMPFS_PATH },
    },
    {
      volume: { name: 'tmp', emptyDir: { medium: 'Memory', sizeLimit: '64Mi' } },
      mount: { mountPath: '/tmp' },
    },
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
