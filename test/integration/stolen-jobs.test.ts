/**
 * Which Jobs an attacker with the controller's token can create: only those of bakes, without privileges, on the nodes of bakes, and with
 * the ServiceAccount and the claim of their template. With the shipped roles and policies, on the real API server.
 */

import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest'
import { type BoxTemplate, boxTemplates } from '../../src/apis/box-template.ts'
import { jobs } from '../../src/apis/core-kinds.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import { buildBakeJob, buildBakeOrder } from '../../src/boxes/controller/bake-job.ts'
import { connectKubernetes, type KubernetesClient } from '../../src/kube/resources.ts'
import { createClock, createRandom } from '../../src/lib/time.ts'
import { kubectl, testNamespace } from '../support/control-plane.ts'
import { connectAsController } from '../support/controller-identity.ts'

const POLICY = new URL('../../config/admission/controller-jobs.yaml', import.meta.url)
/** How long the API server may take to apply a new policy. */
const IN_FORCE = { timeout: 20_000, interval: 50 }

let organization: string
let admin: KubernetesClient
let stolen: KubernetesClient

beforeAll(async () => {
  organization = await testNamespace('stolen-jobs')
  const operator = await testNamespace('stolen-jobs-system', { organization: false })
  const kubeconfigPath = inject('kubeconfig')
  admin = await connectKubernetes({ kubeconfigPath, clock: createClock(), random: createRandom() })
  const access = inject('adminAccess')
  stolen = await connectAsController({ access, namespace: operator, organizations: [], kubeconfigPath })
  const text = await readFile(POLICY, 'utf8')
  const own = text
    .replaceAll('controller-jobs.davit.dev', `controller-jobs.${operator}`)
    .replaceAll('davit-system', operator)
  await kubectl(['apply', '-f', '-'], own)
}, 60_000)

afterAll(async () => {
  await stolen?.close()
  await admin?.close()
})

type Job = ReturnType<typeof buildBakeJob>
type Pod = Job['spec']['template']['spec']
type Container = Pod['containers'][number]

const SETTINGS = {
  ...{ deadlineSeconds: 3600, ttlSeconds: 3600, cpu: '500m', memory: '512Mi', scratch: '20Gi' },
  realms: [],
  ca: { configMap: 'davit-bake-ca', key: 'ca.crt' },
  awsEndpoints: {},
}
const BOX = {
  services: [{ name: 'api', kind: 'custom' as const, image: 'ghcr.io/acme/api:1' }],
  instanceRole: { serviceAccountName: 'box' },
  output: { persistentVolumeClaim: 'boxes' },
}

type JobOptions = { uid?: string; spec?: BoxTemplate['spec']; template?: string }

/** With everything that a Job of Davit may have. */
function jobOf(name: string, options: JobOptions = {}): Job {
  const { uid = 'u-1', spec = BOX, template: templateName = name } = options
  const metadata = { name: templateName, namespace: organization, uid, resourceVersion: '1', generation: 1 }
  const template = { metadata, spec }
  const settings = { ...SETTINGS, image: 'davit:1' }
  const services = [{ name: 'api', image: 'ghcr.io/acme/api:1' }]
  const order = buildBakeOrder(template, { name, services }, settings)
  const roleArn = spec.instanceRole && 'arn:aws:iam::123456789012:role/box'
  return buildBakeJob({ template, order, settings, roleArn })
}

/** @returns the reason of the rejection */
async function rejection(job: Job): Promise<string> {
  return await stolen.create(jobs, job).then(
    () => 'made',
    (error: Error) => error.message,
  )
}

describe('with the policy on Jobs', () => {
  let made = 0

  async function refusal(change: (container: Container) => object): Promise<string> {
    const object = jobOf('stolen')
    const [container] = object.spec.template.spec.containers
    if (container) Object.assign(container, change(container))
    return await rejection(object)
  }

  beforeAll(() =>
    vi.waitFor(
      async () => expect(await refusal(() => ({ args: ['api'] }))).toContain('exactly one container'),
      IN_FORCE,
    ),
  )

  test.each([
    ['without a claim', { services: BOX.services, instanceRole: BOX.instanceRole }],
    ['without a role', { services: BOX.services, output: BOX.output }],
    ['with neither', { services: BOX.services }],
  ])('the Job of a template %s is made', async (_, spec) => {
    made += 1
    await stolen.create(jobs, jobOf(`bake-${made}`, { spec }))
  })

  test('the Job that the version before made is made, since both bake during an upgrade', async () => {
    const job = jobOf('bake-before')
    const amounts = { cpu: '500m', memory: '512Mi' }
    const [container] = job.spec.template.spec.containers
    Object.assign(container ?? {}, { resources: { requests: amounts, limits: amounts } })
    await stolen.create(jobs, job)
  })

  const context = (more: object) => (container: Container) => ({
    securityContext: { ...container.securityContext, ...more },
  })
  const CONTEXT = /security context that is set in the policy/

  test.each([
    ['is root', context({ runAsUser: 0, runAsNonRoot: false })],
    ['has a user of its own', context({ runAsUser: 1000 })],
    ['has a group of its own', context({ runAsGroup: 0 })],
    ['may become root', context({ runAsNonRoot: undefined })],
    ['gains privileges', context({ allowPrivilegeEscalation: true })],
    ['writes to its image', context({ readOnlyRootFilesystem: false })],
    ['keeps capabilities', context({ capabilities: { drop: ['NET_RAW'] } })],
    ['makes any system call', context({ seccompProfile: { type: 'Unconfined' } })],
    [
      'has a seccomp profile of its own',
      context({ seccompProfile: { type: 'Localhost', localhostProfile: 'a' } }),
    ],
    ['has no AppArmor', context({ appArmorProfile: { type: 'Unconfined' } })],
    ['has a type of SELinux', context({ seLinuxOptions: { type: 'spc_t' } })],
    [
      'is an administrator of Windows',
      context({ windowsOptions: { runAsUserName: 'ContainerAdministrator' } }),
    ],
    ['has no context', () => ({ securityContext: undefined })],
  ] as const)('none has a container that %s', async (_, change) => {
    expect(await refusal(change)).toMatch(CONTEXT)
  })

  const LIMITS = /must have limits, at most those in the policy/
  const amounts = (more: object) => (container: Container) => {
    const both = { ...container.resources.limits, ...more }
    return { resources: { requests: both, limits: both } }
  }

  test.each([
    ['has no limits', () => ({ resources: {} }), LIMITS],
    ['has no limit of memory', amounts({ memory: undefined }), LIMITS],
    ['takes more memory', amounts({ memory: '513Mi' }), LIMITS],
    ['takes more processors', amounts({ cpu: '0.6' }), LIMITS],
    ['takes more disk', amounts({ 'ephemeral-storage': '21Gi' }), LIMITS],
    ['takes huge pages', amounts({ 'hugepages-2Mi': '2Mi' }), LIMITS],
    ['takes a device', amounts({ 'example.com/gpu': '1' }), LIMITS],
    [
      'reads a claim as a device',
      ({ volumeMounts }: Container) => ({
        volumeMounts: volumeMounts.filter(({ name }) => name !== 'output'),
        volumeDevices: [{ name: 'output', devicePath: '/dev/xvda' }],
      }),
      LIMITS,
    ],
    ['runs in another folder', () => ({ workingDir: '/output' }), /must mount whole volumes/],
    [
      'mounts a part of a volume',
      ({ volumeMounts }: Container) => ({
        volumeMounts: volumeMounts.map((each) => ({ ...each, subPath: 'a' })),
      }),
      /must mount whole volumes/,
    ],
    [
      'sees mounts of its node',
      ({ volumeMounts }: Container) => ({
        volumeMounts: volumeMounts.map((each) => ({ ...each, mountPropagation: 'HostToContainer' })),
      }),
      /must mount whole volumes/,
    ],
  ] as const)('none is made whose container %s', async (_, change, words) => {
    expect(await refusal(change)).toMatch(words)
  })

  const NODES = /must run on the nodes that are set in the policy/
  const CLASS = /priority class that is set in the policy/
  const NAMES = /must resolve names as other Pods/
  const VOLUMES = /volumes other than its output, memory, certificates/
  const podContext =
    (more: object) =>
    ({ securityContext }: Pod) => ({
      securityContext: { ...securityContext, ...more },
    })
  const volume =
    (name: string, source: object) =>
    ({ volumes }: Pod) => ({
      volumes: volumes.map((each) => (each.name === name ? { name, ...source } : each)),
    })

  test.each([
    ['is root', podContext({ runAsUser: 0, runAsNonRoot: false }), CONTEXT],
    ['is another user', podContext({ runAsUser: 1000 }), CONTEXT],
    ['is in the group of root', podContext({ supplementalGroups: [0] }), CONTEXT],
    ['makes any system call', podContext({ seccompProfile: { type: 'Unconfined' } }), CONTEXT],
    ['has no seccomp profile', podContext({ seccompProfile: undefined }), CONTEXT],
    ['sets the kernel', podContext({ sysctls: [{ name: 'net.ipv4.tcp_syncookies', value: '0' }] }), CONTEXT],
    ['has no context', () => ({ securityContext: undefined }), CONTEXT],
    ['runs on a node of its choice', () => ({ nodeName: 'control-plane' }), NODES],
    ['selects its node', () => ({ nodeSelector: { 'node-role.kubernetes.io/control-plane': '' } }), NODES],
    ['tolerates every taint', () => ({ tolerations: [{ operator: 'Exists' }] }), NODES],
    [
      'runs beside other Pods',
      () => ({
        affinity: {
          podAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: [
              { topologyKey: 'kubernetes.io/hostname', labelSelector: { matchLabels: { app: 'bank' } } },
            ],
          },
        },
      }),
      NODES,
    ],
    ['has a scheduler of its own', () => ({ schedulerName: 'mine' }), NODES],
    [
      'is spread in its own way',
      () => ({
        topologySpreadConstraints: [
          { topologyKey: 'kubernetes.io/hostname', maxSkew: 1, whenUnsatisfiable: 'DoNotSchedule' },
        ],
      }),
      NODES,
    ],
    ['drives out other Pods', () => ({ priorityClassName: 'system-node-critical' }), CLASS],
    ['runs with another runtime', () => ({ runtimeClassName: 'debug' }), CLASS],
    ['says when it drives out others', () => ({ preemptionPolicy: 'PreemptLowerPriority' }), CLASS],
    [
      'resolves a name as it likes',
      () => ({ hostAliases: [{ ip: '192.0.2.1', hostnames: ['ghcr.io'] }] }),
      NAMES,
    ],
    [
      'asks another DNS server',
      () => ({ dnsPolicy: 'None', dnsConfig: { nameservers: ['192.0.2.1'] } }),
      NAMES,
    ],
    ['asks the DNS server of its node', () => ({ dnsPolicy: 'Default' }), NAMES],
    ['searches other domains', () => ({ dnsConfig: { searches: ['example.com'] } }), NAMES],
    ['has the name of a host', () => ({ hostname: 'db', subdomain: 'svc' }), NAMES],
    ['shares its processes', () => ({ shareProcessNamespace: true }), NAMES],
    ['takes more than its container', () => ({ resources: { limits: { memory: '8Gi' } } }), LIMITS],
    ['fills the disk', volume('output', { emptyDir: {} }), VOLUMES],
    ['takes more of the disk', volume('output', { emptyDir: { sizeLimit: '21Gi' } }), VOLUMES],
    ['fills the memory', volume('tmp', { emptyDir: { medium: 'Memory', sizeLimit: '1Gi' } }), VOLUMES],
    ['reads another ConfigMap', volume('ca', { configMap: { name: 'of-the-owner' } }), VOLUMES],
    ['has a second claim', volume('tmp', { persistentVolumeClaim: { claimName: 'boxes' } }), VOLUMES],
    [
      'tries again and again',
      () => ({ restartPolicy: 'OnFailure' }),
      /run one Pod, once and with a deadline/,
    ],
  ] as const)('none is made whose Pod %s', async (_, change, words) => {
    const object = jobOf('stolen')
    const { spec } = object.spec.template
    Object.assign(spec, change(spec))
    expect(await rejection(object)).toMatch(words)
  })

  const ONCE = /run one Pod, once and with a deadline/

  test.each([
    ['runs several Pods', { parallelism: 2, completions: 2 }],
    ['runs several Pods one after the other', { completions: 100 }],
    ['tries again', { backoffLimit: 6 }],
    ['has no deadline', { activeDeadlineSeconds: undefined }],
    ['has a deadline in a week', { activeDeadlineSeconds: 604_800 }],
    ['numbers its Pods', { completionMode: 'Indexed', completions: 1 }],
    [
      'ignores failures',
      {
        podFailurePolicy: {
          rules: [{ action: 'Ignore', onExitCodes: { operator: 'In', values: [1] } }],
        },
      },
    ],
  ])('none is a Job that %s', async (_, change) => {
    const object = jobOf('stolen')
    Object.assign(object.spec, change)
    expect(await rejection(object)).toMatch(ONCE)
  })

  test('none takes over the Pods of others', async () => {
    const object = jobOf('stolen')
    const { labels } = object.spec.template.metadata
    Object.assign(object.spec, { manualSelector: true, selector: { matchLabels: labels } })
    expect(await rejection(object)).toMatch(ONCE)
  })

  test.each([
    ['container.apparmor.security.beta.kubernetes.io/bake', 'unconfined'],
    ['k8s.v1.cni.cncf.io/networks', 'storage'],
    ['linkerd.io/inject', 'enabled'],
  ])('none has the annotation %s', async (name, value) => {
    const object = jobOf('stolen')
    Object.assign(object.spec.template.metadata.annotations, { [name]: value })
    expect(await rejection(object)).toMatch(/must not have annotations other than/)
  })

  test('none is made that another object owns as well', async () => {
    const object = jobOf('stolen')
    const other = { apiVersion: 'v1', kind: 'ConfigMap', name: 'a', uid: 'u-2' }
    const ownerReferences = [...object.metadata.ownerReferences, other]
    expect(await rejection({ ...object, metadata: { ...object.metadata, ownerReferences } } as Job)).toMatch(
      /must be owned by its template/,
    )
  })
})

describe('with the policy that compares a Job with its template', () => {
  const plain = { services: BOX.services }
  const uids = new Map<string, string>()

  beforeAll(async () => {
    for (const [name, spec] of Object.entries({ box: BOX, plain })) {
      const metadata = { namespace: organization, name }
      const created = await admin.create(boxTemplates, {
        apiVersion: API_VERSION,
        kind: 'BoxTemplate',
        metadata,
        spec,
      })
      uids.set(name, created.metadata.uid ?? '')
    }
    const stranger = () => rejection(jobOf('stolen', { template: 'box', spec: BOX }))
    await vi.waitFor(async () => expect(await stranger()).toMatch(/must be owned by its template/), IN_FORCE)
  })

  const jobFor = (template: string, name: string, spec: BoxTemplate['spec']) =>
    jobOf(name, { template, spec, uid: uids.get(template) ?? '' })

  test('the Jobs that Davit makes are made', async () => {
    await stolen.create(jobs, jobFor('box', 'of-box', BOX))
    await stolen.create(jobs, jobFor('plain', 'of-plain', plain))
  })

  const account = (serviceAccountName: string) => ({ instanceRole: { serviceAccountName } })
  const claim = (persistentVolumeClaim: string) => ({ output: { persistentVolumeClaim } })

  test.each([
    ['as another ServiceAccount', 'box', { ...BOX, ...account('admin') }, /ServiceAccount of its template/],
    ['as that of the namespace', 'box', { ...plain, ...claim('boxes') }, /ServiceAccount of its template/],
    [
      'with a ServiceAccount, where its template names none',
      'plain',
      { ...plain, ...account('box') },
      /ServiceAccount of its template/,
    ],
    ['over another claim', 'box', { ...BOX, ...claim('database') }, /PersistentVolumeClaim other than/],
    [
      'over a claim, where its template names none',
      'plain',
      { ...plain, ...claim('boxes') },
      /PersistentVolumeClaim other/,
    ],
  ] as const)('none is made %s', async (_, template, spec, words) => {
    expect(await rejection(jobFor(template, 'stolen', spec))).toMatch(words)
  })

  test('others make Jobs as before, in an organization with templates', async () => {
    const spec = { restartPolicy: 'Never', containers: [{ name: 'own', image: 'busybox' }] }
    await admin.create(jobs, {
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: {
        namespace: organization,
        name: 'of-the-owner',
        labels: { 'davit.dev/box-template': 'box' },
      },
      spec: { template: { spec } },
    })
  })
})
