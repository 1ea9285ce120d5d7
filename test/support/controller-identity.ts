/**
 * Gives the controller of a test exactly the shipped rights: a ServiceAccount in the test's own operator namespace, with the
 * roles of config/rbac, and the right to Secrets in the organizations of the test. An administrator's rights would hide missing
 * ones.
 */

import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parse, parseAllDocuments } from 'yaml'
import { writeKubeconfig } from '../../playground/api-keys.ts'
import { requestApi } from '../../playground/control-plane/api-server.ts'
import type { AdminAccess } from '../../playground/control-plane/protocol.ts'
import { connectKubernetes, type KubernetesClient } from '../../src/kube/resources.ts'
import { createClock, createRandom } from '../../src/lib/time.ts'
import { until } from './until.ts'

const CONFIG = new URL('../../config/rbac/', import.meta.url)
const FILES = ['davit-controller', 'davit-controller-bakes', 'davit-organization-secrets']
const ACCOUNT = 'davit-controller'
const RBAC = '/apis/rbac.authorization.k8s.io/v1'

export type IdentityOptions = {
  access: AdminAccess
  /** The operator's namespace. */
  namespace: string
  organizations: readonly string[]
  /** An administrator's kubeconfig: its API server address may be that of a proxy. */
  kubeconfigPath: string
}

type Kubeconfig = { clusters: { name: string; cluster: object }[] }

type Manifest = {
  kind: string
  metadata: { name: string; namespace?: string }
  subjects?: { namespace: string }[]
}

/** @returns the client of a controller in `namespace`; its `close` leaves nothing behind on this machine */
export async function connectAsController(options: IdentityOptions): Promise<KubernetesClient> {
  const { access, namespace, organizations } = options
  for (const manifest of await manifests(namespace)) await make(access, pathOf(manifest), manifest)
  for (const organization of organizations) await bindSecrets(access, namespace, organization)
  const folder = await mkdtemp(join(tmpdir(), 'davit-controller-'))
  const kubeconfigPath = join(folder, 'kubeconfig')
  await writeKubeconfig(kubeconfigPath, access, { namespace, name: ACCOUNT })
  await reachAs(kubeconfigPath, options.kubeconfigPath)
  await untilInForce(options)
  const api = await connectKubernetes({ kubeconfigPath, clock: createClock(), random: createRandom() })
  const close = async () => {
    await api.close()
    await rm(folder, { recursive: true, force: true })
  }
  return { ...api, close }
}

/** Takes the address of the API server from the other kubeconfig, and keeps the identity. */
async function reachAs(path: string, other: string): Promise<void> {
  const [config, given] = await Promise.all(
    [path, other].map(async (file) => parse(await readFile(file, 'utf8')) as Kubeconfig),
  )
  const cluster = given?.clusters[0]?.cluster
  const clusters = config?.clusters.map(({ name }) => ({ name, cluster }))
  await writeFile(path, JSON.stringify({ ...config, clusters }))
}

/** The shipped manifests; cluster-wide bindings get names that are unique to the test. */
async function manifests(namespace: string): Promise<Manifest[]> {
  const texts = await Promise.all(FILES.map((file) => readFile(new URL(`${file}.yaml`, CONFIG), 'utf8')))
  return texts
    .flatMap((text) => parseAllDocuments(text.replaceAll('davit-system', namespace)))
    .map((document) => document.toJS() as Manifest)
    .map((manifest) =>
      manifest.kind === 'ClusterRoleBinding'
        ? { ...manifest, metadata: { name: `${manifest.metadata.name}-${namespace}` } }
        : manifest,
    )
}

function pathOf({ kind, metadata: { namespace } }: Manifest): string {
  if (kind === 'ServiceAccount') return `/api/v1/namespaces/${namespace}/serviceaccounts`
  const plural = `${kind.toLowerCase()}s`
  return namespace === undefined ? `${RBAC}/${plural}` : `${RBAC}/namespaces/${namespace}/${plural}`
}

async function bindSecrets(access: AdminAccess, namespace: string, organization: string): Promise<void> {
  await make(access, `${RBAC}/namespaces/${organization}/rolebindings`, {
    metadata: { name: `davit-secrets-${namespace}` },
    roleRef: {
      apiGroup: 'rbac.authorization.k8s.io',
      kind: 'ClusterRole',
      name: 'davit-organization-secrets',
    },
    subjects: [{ kind: 'ServiceAccount', name: ACCOUNT, namespace }],
  })
}

/** Ignores an object that another file has already created. */
async function make(access: AdminAccess, path: string, body: object): Promise<void> {
  const { status, body: answer } = await requestApi(access, { method: 'POST', path, body })
  if (status !== 201 && status !== 409) throw new Error(`${path}: ${JSON.stringify(answer)}`)
}

/** The API server learns of roles through its own watches. */
async function untilInForce({ access, namespace, organizations }: IdentityOptions): Promise<void> {
  const user = `system:serviceaccount:${namespace}:${ACCOUNT}`
  const questions = [
    { verb: 'list', group: 'davit.dev', resource: 'webhookdeliveries' },
    { verb: 'list', group: 'davit.dev', resource: 'boxtemplates' },
    { verb: 'create', group: 'davit.dev', resource: 'outcomesegments', namespace },
    ...organizations.map((organization) => ({ verb: 'get', resource: 'secrets', namespace: organization })),
  ]
  for (const resourceAttributes of questions) {
    await until(
      async () => {
        const path = '/apis/authorization.k8s.io/v1/subjectaccessreviews'
        const body = { spec: { user, resourceAttributes } }
        const { body: answer } = await requestApi(access, { method: 'POST', path, body })
        return (answer as { status?: { allowed?: boolean } }).status?.allowed || undefined
      },
      () => `${user} may not ${JSON.stringify(resourceAttributes)}`,
    )
  }
}
