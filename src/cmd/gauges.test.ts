import { expect, test } from 'vitest'
import { countNotReady } from './gauges.ts'

function object(ready?: { status: string; reason: string }, metadata: { deletionTimestamp?: string } = {}) {
  const conditions = ready ? [{ type: 'Ready', ...ready }] : undefined
  return { metadata, status: { conditions } }
}

test('objects that are not ready are counted by kind and reason, and a kind without any is shown as 0', () => {
  const refused = { status: 'False', reason: 'SettingsRequired' }
  const rows = countNotReady({
    RegistryCredential: [
      object(refused),
      object(refused),
      object({ status: 'True', reason: 'Stored' }),
      object(),
    ],
    BoxTemplate: [object({ status: 'True', reason: 'Baked' })],
  })
  expect(rows).toEqual([
    { labels: ['RegistryCredential', 'SettingsRequired'], value: 2 },
    { labels: ['RegistryCredential', 'Unseen'], value: 1 },
    { labels: ['BoxTemplate', ''], value: 0 },
  ])
})

test('what is being deleted is not waited for', () => {
  const going = object({ status: 'False', reason: 'Storing' }, { deletionTimestamp: '2026-01-01T00:00:00Z' })
  expect(countNotReady({ RegistryCredential: [going] })).toEqual([
    { labels: ['RegistryCredential', ''], value: 0 },
  ])
})
