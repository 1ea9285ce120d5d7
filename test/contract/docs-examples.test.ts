/** The pages about the kinds tell the truth: their examples are taken, and they name every value that exists. */

import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { bakeFailureCode } from '../../src/apis/bake.ts'
import { TEMPLATE_CONDITIONS } from '../../src/apis/box-template.ts'
import type { KindDefinition } from '../../src/apis/meta.ts'
import {
  CREDENTIAL_CONDITIONS,
  CREDENTIAL_DRIFTS,
  CREDENTIAL_STALLS,
  CREDENTIAL_WAITS,
} from '../../src/apis/registry-credential.ts'
import { SETTINGS_CONDITIONS, SETTINGS_STALLS, SETTINGS_WAITS } from '../../src/apis/secrets-settings.ts'
import { cancelReason, deliveryState } from '../../src/apis/webhook-delivery.ts'
import { ENDPOINT_CONDITIONS } from '../../src/apis/webhook-endpoint.ts'
import { kinds } from '../../tools/docgen/crd.ts'
import { type ClusterApi, connect, pathOf } from './cluster-api.ts'

type Example = { kind: string; metadata: { name: string; namespace?: string }; [field: string]: unknown }

const PAGES = [
  'webhook-endpoint',
  'webhook-delivery',
  'webhook-event',
  'event-type',
  'registry-credential',
  'secrets-settings',
  'box-template',
  'delivery-log',
]

function pageOf(name: string): string {
  return readFileSync(new URL(`../../docs/reference/${name}.md`, import.meta.url), 'utf8')
}

const examples = PAGES.flatMap((page) => {
  const blocks = pageOf(page).matchAll(/```yaml\n(.*?)```/gs)
  return [...blocks].map(([, yaml = '']) => ({ page, example: parse(yaml) as Example }))
})

let api: ClusterApi
beforeAll(() => {
  api = connect()
})
afterAll(() => api.close())

describe('the pages', () => {
  test('have an example of every kind', () => {
    const shown = new Set(examples.map(({ example }) => example.kind))
    expect([...shown].sort()).toEqual(kinds.map(({ kind }) => kind).sort())
  })

  test.for(examples)('$page: the example of $example.kind is taken, and parsed', async ({ example }) => {
    const kind = kindOf(example)
    const path = `${pathOf(kind, 'default')}?dryRun=All&fieldValidation=Strict`
    const body = { ...example, metadata: { ...example.metadata, namespace: undefined } }
    const { status, body: answer } = await api.call({ method: 'POST', path, body })
    expect({ status, message: answer.message }).toEqual({ status: 201, message: undefined })
    if (kind.status) expect(kind.status.safeParse(example.status ?? {}).error).toBeUndefined()
  })

  test.for(PAGES)('%s keeps the one order', (page) => {
    const heads = [...pageOf(page).matchAll(/^## (.*)$/gm)].map(([, head]) => head)
    expect(heads).toEqual(['Example', 'Spec', 'Working with it', 'Status'])
  })

  test('name every state of a delivery, and every reason to cancel one', () => {
    const rows = [...pageOf('webhook-delivery').matchAll(/^\| (\w+)( \(or absent\))? \|/gm)].map(
      ([, value]) => value,
    )
    expect(rows).toEqual(expect.arrayContaining([...deliveryState.options, ...cancelReason.options]))
  })

  test.for([
    ['webhook-endpoint', ENDPOINT_CONDITIONS],
    ['registry-credential', CREDENTIAL_CONDITIONS],
    ['secrets-settings', SETTINGS_CONDITIONS],
    ['box-template', TEMPLATE_CONDITIONS],
  ] as const)('name every condition: %s', ([page, conditions]) => {
    const rows = [...pageOf(page).matchAll(/^\| (\w+) \| (True|False|Unknown) \|/gm)].map(([, type]) => type)
    expect(new Set(rows)).toEqual(new Set(conditions))
  })

  test.for([
    ['registry-credential', [...CREDENTIAL_STALLS, ...CREDENTIAL_WAITS, ...CREDENTIAL_DRIFTS]],
    ['secrets-settings', [...SETTINGS_STALLS, ...SETTINGS_WAITS]],
  ] as const)('name every reason to wait or to act: %s', ([page, reasons]) => {
    const cells = [...pageOf(page).matchAll(/^\|[^|]*\| (?:True|False|Unknown) \| ([^|]+) \|/gm)]
    const named = cells.flatMap(([, cell = '']) => cell.split(', '))
    expect(reasons.filter((reason) => !named.includes(reason))).toEqual([])
  })
})

test('the page of BoxTemplate names every code of a failed bake', () => {
  const [, table = ''] = pageOf('box-template').split('| Code | Meaning | Fix |')
  const [rowsOfCodes = ''] = table.split('## Status')
  const rows = [...rowsOfCodes.matchAll(/^\| `([a-z_]+)` \|/gm)].map(([, code]) => code)
  expect(rows.sort()).toEqual([...bakeFailureCode.options].sort())
})

function kindOf(example: Example): KindDefinition {
  const kind = kinds.find((candidate) => candidate.kind === example.kind)
  if (!kind) throw new Error(`no kind ${example.kind}`)
  return kind
}
