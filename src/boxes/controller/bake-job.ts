/**
 * The Job of a bake. Its pod runs under `restricted` pod security, has no token for the API server, and tells its result in its
 * termination message. It tries once: what helps by being repeated is repeated by the plan (bake-plan.ts).
 */
import {
  type BakeOrder,
  MAX_ORDER_BYTES,
  ORDER_VARIABLE,
  OUTPUT_PATH,
  TMPFS_PATH,
} from '../../apis/bake-order.ts'
import { type BoxTemplate, boxTemplateKind, TEMPLATE_LABEL } from '../../apis/box-template.ts'
import { API_VERSION } from '../../apis/meta.ts'
import type { PreparedService } from './bake-problem.ts'
import { BAKE_CONTAINER } from './outcome.ts'

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
