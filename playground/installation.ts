/** Applies the objects that the chart has as well: admission policies, and the roles of Davit and of organizations. */
import { readFile } from 'node:fs/promises'
import { parseAllDocuments } from 'yaml'
import type { ResourceType } from '../src/apis/meta.ts'
import { isApiError, type RawObject, type ResourceWriter } from '../src/kube/client.ts'

const ADMISSION = { group: 'admissionregistration.k8s.io', version: 'v1', namespaced: false }
const RBAC = { group: 'rbac.authorization.k8s.io', version: 'v1' }
const TYPES: Readonly<Record<string, ResourceType>> = {
  ValidatingAdmissionPolicy: { ...ADMISSION, plural: 'validatingadmissionpolicies' },
  ValidatingAdmissionPolicyBinding: { ...ADMISSION, plural: 'validatingadmissionpolicybindings' },
  ServiceAccount: { group: '', version: 'v1', plural: 'serviceaccounts', namespaced: true },
  ClusterRole: { ...RBAC, plural: 'clusterroles', namespaced: false },
  ClusterRoleBinding: { ...RBAC, plural: 'clusterrolebindings', namespaced: false },
  Role: { ...RBAC, plural: 'roles', namespaced: true },
  RoleBinding: { ...RBAC, plural: 'rolebindings', namespaced: true },
}

const FILES = [
  ...['deliveries', 'delivery-log', 'settings-status', 'webhook-events'].map((name) => `admission/${name}`),
  ...['secrets', 'leases'].map((name) => `admission/api-${name}`),
  ...['finalizers', 'jobs', 'records', 'secrets'].map((name) => `admission/controller-${name}`),
  ...['api', 'controller', 'controller-bakes', 'organization-secrets'].map((name) => `rbac/davit-${name}`),
  ...['owner', 'viewer', 'publisher', 'event-types'].map((name) => `rbac/davit-${name}`),
]

/** The right of the controller to the Secrets of one organization, in the binding that the chart makes if it is configured to. */
export function secretsBinding(
  namespace: string,
  controller: { namespace: string; name: string },
): RawObject {
  return {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'RoleBinding',
    metadata: { namespace, name: 'davit-secrets' },
    roleRef: {
      apiGroup: 'rbac.authorization.k8s.io',
      kind: 'ClusterRole',
      name: 'davit-organization-secrets',
    },
    subjects: [{ kind: 'ServiceAccount', ...controller }],
  }
}

/** @param folder the repository's `config`, with its slash */
export async function applyInstallation(api: ResourceWriter, folder: string): Promise<void> {
  for (const file of FILES) {
    for (const document of parseAllDocuments(await readFile(`${folder}${file}.yaml`, 'utf8'))) {
      await applyObject(api, document.toJS() as RawObject)
    }
  }
}

/** Creates the object unless it exists. @throws Error for a kind that no installation has */
export async function applyObject(api: ResourceWriter, object: RawObject): Promise<void> {
  const type = TYPES[object.kind ?? '']
  if (!type) throw new Error(`unexpected kind in the installation: ${object.kind}`)
  try {
    await api.create(type, object)
  } catch (error) {
    if (!isApiError(error, 'AlreadyExists')) throw error
  }
}
