import { describe, expect, test } from 'vitest'
import { bakeOrder, MAX_ORDER_BYTES, MAX_SERVICE_NAME, MAX_SERVICES } from '../../apis/bake.ts'
import type { BoxTemplate } from '../../apis/box-template.ts'
import { type BakeSettings, bakeSelector, buildBakeJob, buildBakeOrder, hasBakeLabels } from './bake-job.ts'
import type { PreparedService } from './service-credentials.ts'

const SETTINGS = {
  image: 'registry.example.com/davit:1',
  deadlineSeconds: 3600,
  ttlSeconds: 600,
  cpu: '500m',
  memory: '512Mi',
  scratch: '20Gi',
  realms: ['auth.example.com'],
  awsEndpoints: {},
}
const ROLE = 'arn:aws:iam::123456789012:role/box'

function template(spec: Partial<BoxTemplate['spec']> = {}): BoxTemplate {
  return {
    metadata: { name: 'shop', namespace: 'acme', uid: 'u-1', resourceVersion: '1', generation: 1 },
    spec: {
      services: [
        { name: 'api', kind: 'custom', image: 'ghcr.io/acme/api:1', registryCredentialId: 'rc_ghcr' },
      ],
      instanceRole: { serviceAccountName: 'box' },
      output: { persistentVolumeClaim: 'boxes' },
      ...spec,
    },
  }
}

const STARTED = '2026-01-31T12:00:00.000Z'

const PREPARED: PreparedService = {
  name: 'api',
  image: 'ghcr.io/acme/api:1',
  credential: {
    id: 'rc_ghcr',
    type: 'token',
    registry: 'ghcr.io',
    username: 'bot',
    uid: 'c-1',
    generation: 1,
    parameter: { name: '/davit/acme/rc_ghcr', version: 3, region: 'eu-west-1' },
  },
  why: 'because',
}

function jobOf({
  of = template(),
  services = [PREPARED],
  roleArn = ROLE,
  settings = SETTINGS,
}: {
  of?: BoxTemplate
  services?: PreparedService[]
  roleArn?: string | null
  settings?: BakeSettings
} = {}) {
  const order = buildBakeOrder(of, { name: 'shop-0', services, startedAt: STARTED }, settings)
  const job = buildBakeJob({ template: of, order, settings, ...(roleArn === null ? {} : { roleArn }) })
  const pod = job.spec.template.spec
  return { order, job, pod, container: pod.containers[0] }
}

describe('the Job of a bake', () => {
  test('is owned by its template, tries once, and ends by itself', () => {
    const { job } = jobOf()
    expect(job).toMatchObject({
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: {
        namespace: 'acme',
        name: 'shop-0',
        labels: { 'davit.dev/box-template': 'shop' },
        ownerReferences: [
          {
            apiVersion: 'davit.dev/v1alpha1',
            kind: 'BoxTemplate',
            name: 'shop',
            uid: 'u-1',
            controller: true,
          },
        ],
      },
      spec: { backoffLimit: 0, activeDeadlineSeconds: 4500, ttlSecondsAfterFinished: 600 },
    })
    expect(job.spec.template.metadata).toEqual({
      labels: { ...job.metadata.labels, 'sidecar.istio.io/inject': 'false' },
      annotations: { 'linkerd.io/inject': 'disabled' },
    })
    for (const label of bakeSelector('shop').split(',')) {
      const [name = '', value] = label.split('=')
      expect(job.metadata.labels).toHaveProperty([name], value)
    }
  })

  test('is restricted, word for word', () => {
    const { pod, container } = jobOf()
    expect(pod.securityContext).toEqual({
      runAsNonRoot: true,
      runAsUser: 65_532,
      runAsGroup: 65_532,
      fsGroup: 65_532,
      fsGroupChangePolicy: 'OnRootMismatch',
      seccompProfile: { type: 'RuntimeDefault' },
    })
    expect(container?.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      runAsNonRoot: true,
      capabilities: { drop: ['ALL'] },
      seccompProfile: { type: 'RuntimeDefault' },
    })
    expect(pod).not.toHaveProperty('hostNetwork')
    expect(pod).not.toHaveProperty('initContainers')
    expect(pod.containers).toHaveLength(1)
  })

  test('has the identity of the box, and no token for the API server', () => {
    const { pod, container } = jobOf()
    expect(pod).toMatchObject({
      serviceAccountName: 'box',
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      restartPolicy: 'Never',
    })
    const projected = pod.volumes.filter((volume) => 'projected' in volume)
    expect(projected).toEqual([
      {
        name: 'aws-token',
        projected: {
          sources: [
            {
              serviceAccountToken: {
                audience: 'sts.amazonaws.com',
                expirationSeconds: 3600,
                path: 'token',
              },
            },
          ],
        },
      },
    ])
    const mount = container?.volumeMounts.find(({ name }) => name === 'aws-token')
    expect(mount).toEqual({ name: 'aws-token', mountPath: '/var/run/secrets/davit.dev/aws', readOnly: true })
  })

  test('has memory for auth files, and the claim for its output', () => {
    const { pod, container } = jobOf()
    expect(pod.volumes).toEqual(
      expect.arrayContaining([
        { name: 'output', persistentVolumeClaim: { claimName: 'boxes' } },
        { name: 'secrets', emptyDir: { medium: 'Memory', sizeLimit: '16Mi' } },
        { name: 'tmp', emptyDir: { medium: 'Memory', sizeLimit: '64Mi' } },
      ]),
    )
    expect(
      Object.fromEntries(container?.volumeMounts.map(({ name, mountPath }) => [name, mountPath]) ?? []),
    ).toEqual({
      output: '/output',
      secrets: '/run/davit',
      tmp: '/tmp',
      'aws-token': '/var/run/secrets/davit.dev/aws',
    })
  })

  test('has limits, and tells its end in a message of its own', () => {
    const { container } = jobOf()
    const amount = { cpu: '500m', memory: '512Mi' }
    expect(container).toMatchObject({
      image: SETTINGS.image,
      args: ['bake'],
      resources: { requests: amount, limits: amount },
      terminationMessagePath: '/dev/termination-log',
      terminationMessagePolicy: 'File',
    })
  })

  test('names the disk of its node that it uses, so that a quota may count it and the scheduler finds room', () => {
    const { output: _none, ...spec } = template().spec
    const disk = (job: ReturnType<typeof jobOf>) => {
      const { requests, limits } = job.container?.resources ?? {}
      expect(requests).toEqual(limits)
      return requests?.['ephemeral-storage']
    }
    const pulled = { ...template(), spec }
    expect(disk(jobOf({ of: pulled }))).toBe('20Gi')
    expect(disk(jobOf({ of: pulled, settings: { ...SETTINGS, scratch: '500M' } }))).toBe('500M')
    // With a claim there is only the log.
    expect(disk(jobOf())).toBe('256Mi')
    expect(disk(jobOf({ settings: { ...SETTINGS, scratch: '1Ti' } }))).toBe('256Mi')
  })

  test('is told its order and its role in its environment, and nothing of the operator', () => {
    const { order, container } = jobOf()
    const env = Object.fromEntries(container?.env.map(({ name, value }) => [name, value]) ?? [])
    expect(bakeOrder.parse(JSON.parse(env.DAVIT_BAKE_ORDER ?? ''))).toEqual(order)
    expect(env).toEqual({
      DAVIT_BAKE_ORDER: expect.any(String),
      DAVIT_TMPFS: '/run/davit',
      TMPDIR: '/tmp',
      HOME: '/tmp',
      AWS_EC2_METADATA_DISABLED: 'true',
      AWS_ROLE_ARN: ROLE,
      AWS_WEB_IDENTITY_TOKEN_FILE: '/var/run/secrets/davit.dev/aws/token',
    })
  })

  test('is told where AWS is for the operator, and nothing else of that', () => {
    const awsEndpoints = {
      AWS_ENDPOINT_URL_SSM: 'https://ssm.example.com',
      AWS_USE_FIPS_ENDPOINT: 'true',
      AWS_ENDPOINT_URL: undefined,
    }
    const { job } = jobOf({ settings: { ...SETTINGS, awsEndpoints } })
    const env = job.spec.template.spec.containers[0]?.env.filter(({ name }) => name in awsEndpoints)
    expect(env).toEqual([
      { name: 'AWS_ENDPOINT_URL_SSM', value: 'https://ssm.example.com' },
      { name: 'AWS_USE_FIPS_ENDPOINT', value: 'true' },
    ])
  })

  test('has the certificates of the named ConfigMap, read-only, and is told where', () => {
    const { job } = jobOf({ settings: { ...SETTINGS, ca: { configMap: 'trust', key: 'ca-bundle.crt' } } })
    const { containers, volumes } = job.spec.template.spec
    expect(volumes).toContainEqual({
      name: 'ca',
      configMap: { name: 'trust', items: [{ key: 'ca-bundle.crt', path: 'ca.crt' }] },
    })
    const [{ env, volumeMounts } = { env: [], volumeMounts: [] }] = containers
    expect(volumeMounts).toContainEqual({ name: 'ca', mountPath: '/etc/davit/ca', readOnly: true })
    expect(env).toContainEqual({ name: 'DAVIT_EXTRA_CA_FILE', value: '/etc/davit/ca/ca.crt' })
  })

  test('without a role has no token, and not the role of the node; a pod identity brings its own', () => {
    const { job } = jobOf({ roleArn: null })
    const names = job.spec.template.spec.containers[0]?.env.map(({ name }) => name) ?? []
    expect(names.filter((name) => name.startsWith('AWS_'))).toEqual(['AWS_EC2_METADATA_DISABLED'])
    expect(job.spec.template.spec.volumes.some((volume) => 'projected' in volume)).toBe(false)
  })

  test('without an output has room on the node, and without a role the account of the namespace', () => {
    const { output: _none, instanceRole: _nobody, ...spec } = template().spec
    const { job, order } = jobOf({ of: { ...template(), spec }, roleArn: null })
    expect(job.spec.template.spec.volumes[0]).toEqual({ name: 'output', emptyDir: { sizeLimit: '20Gi' } })
    expect(job.spec.template.spec).not.toHaveProperty('serviceAccountName')
    expect(order.output).toEqual({ kind: 'none' })
  })
})

describe('what the cluster operator sets for the Pods of bakes', () => {
  const podWith = (more: Partial<BakeSettings>) => jobOf({ settings: { ...SETTINGS, ...more } })
  const contextWith = (changes: NonNullable<BakeSettings['podSecurityContext']>) =>
    podWith({ podSecurityContext: changes })

  test('replaces and removes fields of the security context', () => {
    const { pod } = contextWith({ runAsUser: 1000, fsGroup: 0, supplementalGroups: [7] })
    expect(pod.securityContext).toEqual({
      runAsNonRoot: true,
      runAsUser: 1000,
      runAsGroup: 65_532,
      fsGroup: 0,
      fsGroupChangePolicy: 'OnRootMismatch',
      supplementalGroups: [7],
      seccompProfile: { type: 'RuntimeDefault' },
    })
    const openshift = contextWith({ runAsUser: null, runAsGroup: null, fsGroup: null })
    expect(openshift.pod.securityContext).toEqual({
      runAsNonRoot: true,
      fsGroupChangePolicy: 'OnRootMismatch',
      seccompProfile: { type: 'RuntimeDefault' },
    })
  })

  test('leaves nothing of the context where all is removed, and the container unprivileged', () => {
    const { pod, container } = contextWith({
      runAsNonRoot: null,
      runAsUser: null,
      runAsGroup: null,
      fsGroup: null,
      fsGroupChangePolicy: null,
      seccompProfile: null,
    })
    expect(pod.securityContext).toEqual({})
    expect(container?.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      runAsNonRoot: true,
      capabilities: { drop: ['ALL'] },
    })
  })

  test('gives the container the seccomp profile of the Pod', () => {
    const seccompProfile = { type: 'Localhost', localhostProfile: 'profiles/bake.json' } as const
    const { pod, container } = contextWith({ seccompProfile })
    expect(pod.securityContext.seccompProfile).toEqual(seccompProfile)
    expect(container?.securityContext.seccompProfile).toEqual(seccompProfile)
  })

  test('says where they run, and what their image is pulled with', () => {
    const tolerations = [{ key: 'dedicated', operator: 'Exists', effect: 'NoSchedule' }] as const
    const affinity = { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: {} } }
    const { pod, container } = podWith({
      imagePullPolicy: 'Always',
      imagePullSecrets: ['mirror', 'other'],
      nodeSelector: { pool: 'bakes' },
      tolerations: [...tolerations],
      affinity,
      priorityClassName: 'batch',
    })
    expect(pod).toMatchObject({
      imagePullSecrets: [{ name: 'mirror' }, { name: 'other' }],
      nodeSelector: { pool: 'bakes' },
      tolerations,
      affinity,
      priorityClassName: 'batch',
    })
    expect(container?.imagePullPolicy).toBe('Always')
  })

  test('adds labels and annotations, and replaces none of ours', () => {
    const { job } = podWith({
      podLabels: { team: 'platform', 'davit.dev/box-template': 'other', 'sidecar.istio.io/inject': 'true' },
      podAnnotations: { note: 'ours', 'linkerd.io/inject': 'enabled' },
    })
    const { labels, annotations } = job.spec.template.metadata
    expect(labels).toEqual({ ...job.metadata.labels, team: 'platform', 'sidecar.istio.io/inject': 'false' })
    expect(annotations).toEqual({ note: 'ours', 'linkerd.io/inject': 'disabled' })
    expect(job.metadata.labels).not.toHaveProperty('team')
  })

  test.for([
    {},
    { imagePullSecrets: [], nodeSelector: {}, tolerations: [], affinity: {} },
    { podLabels: {}, podAnnotations: {}, podSecurityContext: {} },
    { podSecurityContext: { runAsUser: 65_532 } },
  ])('changes nothing where it says nothing: %o', (more) => {
    expect(podWith(more).job).toEqual(jobOf().job)
  })
})

test('a bake of a template is known by all of its labels', () => {
  const { labels } = jobOf().job.metadata
  expect(hasBakeLabels(labels, 'shop')).toBe(true)
  expect([hasBakeLabels(labels, 'other'), hasBakeLabels(undefined, 'shop')]).toEqual([false, false])
  for (const label of Object.keys(labels))
    expect(hasBakeLabels({ ...labels, [label]: 'else' }, 'shop')).toBe(false)
  expect(bakeSelector()).toBe(
    'davit.dev/box-template,app.kubernetes.io/name=davit-bake,app.kubernetes.io/managed-by=davit',
  )
})

describe('the order', () => {
  test('has what is to be pulled, where it goes, and no reasons', () => {
    const { order } = jobOf({ of: template({ platform: 'linux/arm64' }) })
    expect(order).toEqual({
      template: { namespace: 'acme', name: 'shop', uid: 'u-1' },
      bake: 'shop-0',
      services: [{ name: 'api', image: 'ghcr.io/acme/api:1', credential: PREPARED.credential }],
      output: { kind: 'layout', path: '/output' },
      orderedAt: STARTED,
      platform: 'linux/arm64',
      realms: ['auth.example.com'],
      deadlineSeconds: 3600,
    })
  })

  test('fits however long its parts are', () => {
    const username = '\u{1f600}'.repeat(255)
    const parameter = { name: `/${'a'.repeat(250)}`, version: 2 ** 31, region: 'a'.repeat(25) }
    const registry = `${'a'.repeat(63)}.${'a'.repeat(63)}.${'a'.repeat(63)}.${'a'.repeat(61)}:65535`
    const [id, uid] = [`rc_${'a'.repeat(63)}`, 'u'.repeat(36)]
    const secret = { id, uid, generation: 2 ** 31, registry, username, parameter }
    const credential = { ...secret, type: 'token' } as const
    const services = Array.from(
      { length: MAX_SERVICES },
      (_, index): PreparedService => ({
        name: `${'a'.repeat(MAX_SERVICE_NAME - 2)}${index}`.slice(0, MAX_SERVICE_NAME),
        image: 'a'.repeat(716),
        credential,
      }),
    )
    const { order } = jobOf({ services })
    expect(
      Buffer.byteLength(JSON.stringify({ ...order, realms: Array(64).fill('a'.repeat(100)) })),
    ).toBeLessThan(MAX_ORDER_BYTES)
    expect(bakeOrder.safeParse(order).error).toBeUndefined()
  })
})

test('an order of as many bytes as there may be is taken, and one of a byte more is not', () => {
  const { order } = jobOf()
  const room = MAX_ORDER_BYTES - Buffer.byteLength(JSON.stringify({ ...order, bake: '' }))
  const withName = (length: number) => () =>
    buildBakeJob({ template: template(), order: { ...order, bake: 'b'.repeat(length) }, settings: SETTINGS })
  expect(withName(room)).not.toThrow()
  expect(withName(room + 1)).toThrow(new RangeError('the bake request is too large'))
})
