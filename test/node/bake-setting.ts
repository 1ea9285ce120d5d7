/** What bakes on the node need: Davit's kinds and its controller, an account of AWS, an organization, and a volume. */

import { chmod, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort } from '../../playground/free-port.ts'
import { API_VERSION, ORGANIZATION_LABEL } from '../../src/apis/meta.ts'
import { REGISTRY_SECRET_TYPE } from '../../src/apis/registry-credential.ts'
import { connectKubernetes } from '../../src/kube/resources.ts'
import { createClock, createRandom } from '../../src/lib/time.ts'
import { connectOrganization } from '../support/aws/connect-organization.ts'
import { REGION, TestAws } from '../support/aws/organization-account.ts'
import { ACCOUNT } from '../support/box/box-bed.ts'
import { addPodRole, ROLE_KEY, SERVICE_ACCOUNT, trustIssuer } from '../support/kubelet/pod-role.ts'
import type { TestRegistry } from '../support/registry/test-registry.ts'
import { RoleProcess } from '../support/role-process.ts'
import type { NodeCluster } from './cluster.ts'
import { forward } from './forward.ts'
import type { NodeOptions } from './node-options.ts'
import { ONE } from './private-registry.ts'

export const ORGANIZATION = 'davit-node-bakes'
export const CLAIM = 'boxes'
const OPERATOR = 'davit-node-system'
const CRDS = fileURLToPath(new URL('../../crds', import.meta.url))
const VOLUME = 'davit-node-boxes'
const ROLE_ARN = `arn:aws:iam::${ACCOUNT}:role/box`
const CA = 'davit-bake-ca'

export type BakeSetting = {
  aws: TestAws
  /** The volume of boxes, on this machine. */
  boxes: string
  /** Of the box. */
  roleArn: string
  stop(): Promise<void>
}

/** @param folder for the volume and the controller's log */
export async function prepareBakes(
  options: NodeOptions,
  cluster: NodeCluster,
  { folder, registry }: { folder: string; registry: TestRegistry },
): Promise<BakeSetting> {
  await using stack = new AsyncDisposableStack()
  const aws = await TestAws.start()
  stack.defer(() => aws.stop())
  const reached = await forward(options.address, aws.emulator.url)
  stack.defer(() => reached.stop())
  await cluster.kubectl(['apply', '--server-side', '-f', CRDS])
  stack.defer(() => cluster.remove('-f', CRDS))
  stack.defer(() => cluster.remove('namespace', OPERATOR))
  const boxes = join(folder, 'boxes')
  await makeVolume(cluster, boxes)
  stack.defer(() => cluster.remove('persistentvolume', VOLUME))
  await cluster.apply(...objects(registry.ca))
  const controller = new RoleProcess({
    role: 'controller',
    kubeconfigPath: options.kubeconfig,
    namespace: OPERATOR,
    replica: 'node',
    opsPort: await freePort(),
    logPath: join(folder, 'controller.log'),
    settings: {
      ...aws.environment(),
      // Where pods reach it as well.
      AWS_ENDPOINT_URL: reached.url,
      DAVIT_BAKE_IMAGE: options.image ?? '',
      DAVIT_BAKE_CA_CONFIG_MAP: CA,
    },
  })
  stack.defer(() => controller.kill())
  // While there is a controller, which lets go of what it holds.
  stack.defer(() => cluster.removed('namespace', ORGANIZATION))
  await controller.untilReady()
  await connect(options, cluster, aws)
  await cluster.apply(
    ...credential('good', registry.host, ONE.secret),
    ...credential('wrong', registry.host, 'mistyped'),
  )
  await cluster.kubectl([
    'wait',
    'registrycredential/good',
    'registrycredential/wrong',
    '-n',
    ORGANIZATION,
    '--for=condition=Ready',
    '--timeout=50s',
  ])
  const parts = stack.move()
  return { aws, boxes, roleArn: ROLE_ARN, stop: () => parts.disposeAsync() }
}

async function connect({ kubeconfig }: NodeOptions, cluster: NodeCluster, aws: TestAws): Promise<void> {
  const api = await connectKubernetes({
    kubeconfigPath: kubeconfig,
    clock: createClock(),
    random: createRandom(),
  })
  try {
    const account = aws.emulator.accounts.add(ACCOUNT)
    await connectOrganization({ api, organization: ORGANIZATION, region: REGION, account, role: 'secrets' })
    const issuer = await trustIssuer(account, (args) => cluster.kubectl(args))
    addPodRole(account, { name: 'box', namespace: ORGANIZATION, issuer })
  } finally {
    await api.close()
  }
}

/** One that has no permission for others than root, until its kubelet gives it to the pod's group. */
async function makeVolume(cluster: NodeCluster, path: string): Promise<void> {
  await mkdir(path)
  await chmod(path, 0o700)
  const { items } = await cluster.get<{ items: { metadata: { name: string } }[] }>('nodes')
  const values = items.map(({ metadata }) => metadata.name)
  await cluster.apply({
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name: VOLUME },
    spec: {
      capacity: { storage: '1Gi' },
      accessModes: ['ReadWriteOnce'],
      storageClassName: VOLUME,
      persistentVolumeReclaimPolicy: 'Retain',
      local: { path },
      nodeAffinity: {
        required: {
          nodeSelectorTerms: [
            { matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In', values }] },
          ],
        },
      },
    },
  })
}

/** @param ca PEM of the registry's authority */
function objects(ca: string): object[] {
  const namespace = ORGANIZATION
  const labels = { [ORGANIZATION_LABEL]: 'true', 'pod-security.kubernetes.io/enforce': 'restricted' }
  return [
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: OPERATOR } },
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace, labels } },
    {
      apiVersion: 'v1',
      kind: 'ServiceAccount',
      metadata: {
        namespace,
        name: SERVICE_ACCOUNT,
        annotations: { [ROLE_KEY]: ROLE_ARN },
      },
    },
    { apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace, name: CA }, data: { 'ca.crt': ca } },
    {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { namespace, name: CLAIM },
      spec: {
        accessModes: ['ReadWriteOnce'],
        storageClassName: VOLUME,
        resources: { requests: { storage: '1Gi' } },
      },
    },
  ]
}

function credential(name: string, registry: string, secret: string): object[] {
  const namespace = ORGANIZATION
  return [
    {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { namespace, name: `${name}-handover` },
      type: REGISTRY_SECRET_TYPE,
      stringData: { secret },
    },
    {
      apiVersion: API_VERSION,
      kind: 'RegistryCredential',
      metadata: { namespace, name },
      spec: {
        type: 'token',
        label: name,
        registry,
        username: ONE.user,
        secretRef: { name: `${name}-handover` },
      },
    },
  ]
}
