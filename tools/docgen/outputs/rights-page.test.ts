import { expect, test } from 'vitest'
import { rightsPage } from './rights-page.ts'

const ROLES = `
kind: ClusterRole
metadata: { name: davit-api }
rules:
  - { apiGroups: [davit.dev], resources: [webhookevents/status], verbs: [patch] }
---
kind: Role
metadata: { name: davit-api, namespace: davit-system }
rules:
  - { apiGroups: [''], resources: [secrets], verbs: [get, create] }
`
const CALLS = { 'patch webhookevents/status.davit.dev': 7, 'get secrets in davit-system': 3 }

function page(results?: object): string {
  const files: Record<string, string> = { 'config/rbac/davit-api.yaml': ROLES }
  if (results) files['test/rights/results/rights.json'] = JSON.stringify(results)
  return rightsPage.files((path) => files[path])[0]?.content ?? ''
}

test('each right has the calls that it was needed for, and one that is newer than the run says so', () => {
  const run = {
    measuredAt: '2026-01-31T12:00:00Z',
    commit: '0123abc',
    refused: 0,
    calls: { 'davit-api': CALLS },
  }
  const text = page(run)
  expect(text).toContain('| `webhookevents/status.davit.dev` | all | `davit-api` | patch 7 |')
  expect(text).toContain('| `secrets` | own | `davit-api` | get 3, create (not run) |')
  expect(text).toContain('Last run: 2026-01-31. 0 kinds')
  expect(text).not.toContain('0123abc')
})

test('before the first run no right has a figure', () => {
  expect(page()).toContain('patch (not run)')
  expect(page()).toContain('The test has not run yet.')
})
