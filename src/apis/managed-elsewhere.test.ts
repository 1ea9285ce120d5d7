import { expect, test } from 'vitest'
import { managedBy } from './annotations.ts'

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
