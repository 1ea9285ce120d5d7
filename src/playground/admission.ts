/** Applies what a chart would: the policy that keeps the delivery log append-only. */
import { readFile } from 'node:fs/promises'
import { parseAllDocuments } from 'yaml'
import type { ResourceType } from '../api/meta.ts'
import { isApiError, type RawObject, type ResourceWriter } from '../ports/kubernetes.ts'

const GROUP = { group: 'admissionregistration.k8s.io', version: 'v1', namespaced: false }
const TYPES: Readonly<Record<string, ResourceType>> = {
  ValidatingAdmissionPolicy: { ...GROUP, plural: 'validatingadmissionpolicies' },
  ValidatingAdmissionPolicyBinding: { ...GROUP, plural: 'validatingadmissionpolicybindings' },
}

/** @param path of a YAML file of policies and bindings */
export async function applyPolicies(api: ResourceWriter, path: string): Promise<void> {
  for (const document of parseAllDocuments(await readFile(path, 'utf8'))) {
    const object = document.toJS() as RawObject
    const type = TYPES[object.kind ?? '']
    if (!type) throw new Error(`${path} has a ${object.kind}, which is no admission policy`)
    try {
      await api.create(type, object)
    } catch (error) {
      if (!isApiError(error, 'AlreadyExists')) throw error
    }
  }
}
