/** A box that is baked in a pod: its secret from the account of the organization, its image from a private registry. */
import { API_VERSION } from '../../src/apis/meta.ts'
import { REGISTRY_SECRET_TYPE } from '../../src/apis/registry-credential.ts'
import type { NodeCluster } from '../node/cluster.ts'
import { ONE, OPEN } from '../node/private-registry.ts'
import { ROLE_KEY, SERVICE_ACCOUNT } from '../support/kubelet/pod-role.ts'
import type { Cloud } from './cloud.ts'
import { waitFor } from './commands.ts'
import type { Report } from './report.ts'

export const BAKE_CA = 'davit-bake-ca'
const TEMPLATE = 'shop'
const CREDENTIAL = 'good'
const BAKE_LIMIT_MS = 300_000

type Template = {
  status?: { bake?: { state?: string; job?: string; services?: { digest?: string }[]; failure?: object } }
}

export async function checkBake(
  { cluster, cloud, report }: { cluster: NodeCluster; cloud: Cloud; report: Report },
  organization: string,
): Promise<void> {
  await cluster.apply(...objectsOf(cloud, organization))
  const wait = ['--for=condition=Ready', '--timeout=55s']
  await cluster.kubectl(['wait', `registrycredential/${CREDENTIAL}`, '-n', organization, ...wait])
  await cluster.apply(templateOf(cloud, organization))
  const begin = performance.now()
  const bake = await waitFor(
    'the end of the bake',
    async () => {
      const { status } = await cluster.get<Template>('boxtemplate', TEMPLATE, '-n', organization)
      return /succeeded|failed/.test(status?.bake?.state ?? '') ? status?.bake : undefined
    },
    BAKE_LIMIT_MS,
  )
  report.figure('a bake, from its template to its digests', `${seconds(begin)} s`)
  const [api, page] = bake.services ?? []
  report.check(
    'a bake in a pod ends with the digests that were pushed',
    api?.digest === cloud.digests[ONE.repository] && page?.digest === cloud.digests[OPEN],
    JSON.stringify(bake.failure ?? bake.services),
  )
  const readers = cloud.aws.emulator.trail
    .entries({ operation: 'GetParameter' })
    .filter(({ error }) => error === undefined)
    .map(({ principal }) => principal ?? '')
  report.check(
    'its secret was read as the role of the box alone',
    readers.length > 0 && readers.every((reader) => reader.includes(':assumed-role/box/')),
    readers.join(),
  )
  const pods = await cluster.kubectl(['get', 'pods', '-n', organization, '-o', 'json'])
  report.check(
    'its pod has no token for the API server',
    pods.includes('"kind": "Pod"') && !pods.includes('kube-api-access'),
    `${pods.length} characters`,
  )
}

function seconds(begin: number): string {
  return ((performance.now() - begin) / 1000).toFixed(1)
}

function objectsOf({ boxRole, registry }: Cloud, namespace: string): object[] {
  const handover = `${CREDENTIAL}-handover`
  return [
    {
      apiVersion: 'v1',
      kind: 'ServiceAccount',
      metadata: { namespace, name: SERVICE_ACCOUNT, annotations: { [ROLE_KEY]: boxRole } },
    },
    {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { namespace, name: BAKE_CA },
      data: { 'ca.crt': registry.ca },
    },
    {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { namespace, name: handover },
      type: REGISTRY_SECRET_TYPE,
      stringData: { secret: ONE.secret },
    },
    {
      apiVersion: API_VERSION,
      kind: 'RegistryCredential',
      metadata: { namespace, name: CREDENTIAL },
      spec: {
        type: 'token',
        label: CREDENTIAL,
        registry: registry.host,
        username: ONE.user,
        secretRef: { name: handover },
      },
    },
  ]
}

/** Without a volume: clusters that have none of their own can bake all the same. */
function templateOf({ registry }: Cloud, namespace: string): object {
  const image = (repository: string) => `${registry.host}/${repository}:1`
  return {
    apiVersion: API_VERSION,
    kind: 'BoxTemplate',
    metadata: { namespace, name: TEMPLATE },
    spec: {
      services: [
        {
          name: 'api',
          kind: 'custom',
          image: image(ONE.repository),
          registryCredentialId: `rc_${CREDENTIAL}`,
        },
        { name: 'page', kind: 'catalog', image: image(OPEN) },
      ],
      instanceRole: { serviceAccountName: SERVICE_ACCOUNT },
    },
  }
}
