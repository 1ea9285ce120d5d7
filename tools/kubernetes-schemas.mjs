// Extracts the schemas of the Kubernetes kinds that the chart uses from several API server versions, into test/chart/kubernetes:
//
//   node tools/kubernetes-schemas.mjs 1.32.13 1.33.13
//
// They are in the Go module k8s.io/kubernetes, in the form that /openapi/v3 serves. Descriptions are left out.

import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const OUT = fileURLToPath(new URL('../test/chart/kubernetes', import.meta.url))
const KINDS = new Set([
  '/v1 ConfigMap',
  '/v1 Pod',
  '/v1 Service',
  '/v1 ServiceAccount',
  'admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy',
  'admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding',
  'apiextensions.k8s.io/v1 CustomResourceDefinition',
  'apps/v1 Deployment',
  'autoscaling/v2 HorizontalPodAutoscaler',
  'batch/v1 Job',
  'networking.k8s.io/v1 Ingress',
  'networking.k8s.io/v1 NetworkPolicy',
  'policy/v1 PodDisruptionBudget',
  'rbac.authorization.k8s.io/v1 ClusterRole',
  'rbac.authorization.k8s.io/v1 ClusterRoleBinding',
  'rbac.authorization.k8s.io/v1 Role',
  'rbac.authorization.k8s.io/v1 RoleBinding',
])

mkdirSync(OUT, { recursive: true })
for (const version of process.argv.slice(2)) {
  const module = `k8s.io/kubernetes@v${version}`
  const { Dir } = JSON.parse(execFileSync('go', ['mod', 'download', '-json', module], { encoding: 'utf8' }))
  const schemas = reached(schemasIn(join(Dir, 'api/openapi-spec/v3')))
  const file = join(OUT, `${version.split('.').slice(0, 2).join('.')}.json`)
  writeFileSync(file, `${JSON.stringify({ version, schemas })}\n`)
  console.log(`${file}: ${Object.keys(schemas).length} schemas`)
}

function schemasIn(folder) {
  const files = readdirSync(folder).filter((name) => name.endsWith('.json'))
  const documents = files.map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')))
  return Object.assign({}, ...documents.map(({ components }) => components?.schemas ?? {}))
}

/** @returns the schemas of the kinds, and those that they refer to */
function reached(schemas) {
  const found = {}
  const take = (name) => {
    if (found[name] !== undefined) return
    found[name] = withoutWords(schemas[name])
    for (const [, other] of JSON.stringify(found[name]).matchAll(/"#\/components\/schemas\/([^"]+)"/g))
      take(other)
  }
  for (const [name, schema] of Object.entries(schemas)) {
    const kinds = schema['x-kubernetes-group-version-kind'] ?? []
    if (kinds.some(({ group, version, kind }) => KINDS.has(`${group}/${version} ${kind}`))) take(name)
  }
  return Object.fromEntries(Object.entries(found).sort(([a], [b]) => (a < b ? -1 : 1)))
}

function withoutWords(value) {
  if (Array.isArray(value)) return value.map(withoutWords)
  if (typeof value !== 'object' || value === null) return value
  const kept = Object.entries(value).filter(([key, of]) => key !== 'description' || typeof of !== 'string')
  return Object.fromEntries(kept.map(([key, of]) => [key, withoutWords(of)]))
}
