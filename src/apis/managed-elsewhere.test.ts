import { expect, test } from 'vitest'
import { managedBy, managersOfField, specManagersOf } from './annotations.ts'

const spec = { 'f:spec': { 'f:url': {} } }

test.each([
  { why: 'nothing tells of anybody', given: {}, want: undefined },
  {
    why: 'it was made over REST, and edited with kubectl',
    given: {
      managedFields: [
        { manager: 'davit', operation: 'Update', fieldsV1: spec },
        { manager: 'kubectl-edit', operation: 'Update', fieldsV1: spec },
      ],
    },
    want: undefined,
  },
  {
    why: 'Flux applies it',
    given: { managedFields: [{ manager: 'kustomize-controller', operation: 'Apply', fieldsV1: spec }] },
    want: 'kustomize-controller',
  },
  {
    why: 'somebody applies a label and nothing of the spec',
    given: {
      managedFields: [
        { manager: 'labels', operation: 'Apply', fieldsV1: { 'f:metadata': { 'f:labels': {} } } },
      ],
    },
    want: undefined,
  },
  {
    why: 'kubectl apply left its mark',
    given: { annotations: { 'kubectl.kubernetes.io/last-applied-configuration': '{}' } },
    want: 'kubectl apply',
  },
  {
    why: 'a release of Helm',
    given: { annotations: { 'meta.helm.sh/release-name': 'hooks' } },
    want: 'Helm',
  },
  { why: "Helm's label", given: { labels: { 'app.kubernetes.io/managed-by': 'Helm' } }, want: 'Helm' },
  {
    why: 'Argo CD tracks it by annotation',
    given: {
      annotations: { 'argocd.argoproj.io/tracking-id': 'hooks:davit.dev/WebhookEndpoint:acme/billing' },
    },
    want: 'Argo CD',
  },
  {
    why: 'Argo CD tracks it by label',
    given: { labels: { 'argocd.argoproj.io/instance': 'hooks' } },
    want: 'Argo CD',
  },
  {
    why: 'managed fields that make no sense',
    given: { managedFields: [null, 7, { operation: 'Apply' }] },
    want: undefined,
  },
])('$why: $want', ({ given, want }) => {
  expect(managedBy(given)).toBe(want)
})

/** A server-side apply of some fields of the spec. */
const applied = (manager: string, ...fields: string[]) => ({
  manager,
  operation: 'Apply',
  fieldsV1: { 'f:spec': Object.fromEntries(fields.map((field) => [`f:${field}`, {}])) },
})
const lastApplied = (spec: object) => ({
  'kubectl.kubernetes.io/last-applied-configuration': JSON.stringify({ metadata: {}, spec }),
})
const TWO = [applied('ma', 'url'), applied('mb', 'description', 'eventTypes')]

test.each<{ why: string; given: object; fields: Record<string, string[]> }>([
  {
    why: 'two managers apply fields of their own, and one field belongs to neither',
    given: { managedFields: TWO },
    fields: { url: ['ma'], description: ['mb'], eventTypes: ['mb'], concurrency: ['ma', 'mb'] },
  },
  {
    why: 'both apply one field',
    given: { managedFields: [...TWO, applied('mc', 'url')] },
    fields: { url: ['ma', 'mc'], description: ['mb'], ordered: ['ma', 'mb', 'mc'] },
  },
  {
    why: 'one applies with two versions of the kind',
    given: { managedFields: [...TWO, applied('ma', 'ordered')] },
    fields: { url: ['ma'], ordered: ['ma'], description: ['mb'] },
  },
  {
    why: 'a field was edited that no manager applies',
    given: {
      managedFields: [
        ...TWO,
        { manager: 'kubectl-edit', operation: 'Update', fieldsV1: { 'f:spec': { 'f:concurrency': {} } } },
      ],
    },
    fields: { concurrency: ['ma', 'mb'], url: ['ma'] },
  },
  {
    why: '`kubectl apply` set one field, and a manager applies another',
    given: {
      annotations: lastApplied({ url: 'https://a.example', state: 'enabled' }),
      managedFields: [applied('mb', 'description')],
    },
    fields: { url: ['kubectl apply'], description: ['mb'], ordered: ['mb', 'kubectl apply'] },
  },
  {
    why: '`kubectl apply` has left a text that makes no sense',
    given: {
      annotations: { 'kubectl.kubernetes.io/last-applied-configuration': '{' },
      managedFields: [applied('mb', 'description')],
    },
    fields: { url: ['kubectl apply'], description: ['mb'] },
  },
  {
    why: 'Helm wrote some fields, and a manager applies another',
    given: {
      labels: { 'app.kubernetes.io/managed-by': 'Helm' },
      managedFields: [
        { manager: 'helm', operation: 'Update', fieldsV1: { 'f:spec': { 'f:url': {} } } },
        applied('mb', 'description'),
      ],
    },
    fields: { url: ['Helm'], description: ['mb'], ordered: ['mb', 'Helm'] },
  },
  {
    why: 'Argo CD tracks it, and it is not known what Argo CD wrote',
    given: {
      labels: { 'argocd.argoproj.io/instance': 'hooks' },
      managedFields: [applied('mb', 'description')],
    },
    fields: { url: ['Argo CD'], description: ['mb'] },
  },
  {
    why: 'Argo CD applies it on the server, and tracks it',
    given: {
      annotations: { 'argocd.argoproj.io/tracking-id': 'hooks:davit.dev/WebhookEndpoint:acme/billing' },
      managedFields: [applied('argocd-controller', 'url'), applied('mb', 'description')],
    },
    fields: { url: ['argocd-controller'], description: ['mb'] },
  },
  {
    why: 'the status was applied, which is no field of the spec',
    given: { managedFields: [...TWO, { ...applied('davit', 'url'), subresource: 'status' }] },
    fields: { url: ['ma'] },
  },
])('each field has its managers: $why', ({ given, fields }) => {
  const managers = specManagersOf(given as Record<string, unknown>)
  const found = Object.keys(fields).map((field) => [field, managersOfField(managers, field)])
  expect(Object.fromEntries(found)).toEqual(fields)
})

test('all managers of an object are named where it matters as a whole', () => {
  expect(managedBy({ managedFields: TWO })).toBe('ma and mb')
  expect(managedBy({ managedFields: [...TWO, applied('mc', 'url')] })).toBe('ma, mb, and mc')
})
