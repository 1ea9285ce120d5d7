/** examples/quota.yaml limits kinds that there are, and none that Davit itself needs. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { GROUP } from '../src/apis/meta.ts'
import { kinds } from '../tools/docgen/crd.ts'

const EXAMPLE = new URL('../examples/quota.yaml', import.meta.url)

type Quota = { kind: string; spec: { hard: Record<string, string> } }

const quota = parse(readFileSync(EXAMPLE, 'utf8')) as Quota
const limited = Object.keys(quota.spec.hard)
const countOf = (plural: string) => `count/${plural}.${GROUP}`

test('the quota is for what owners create: endpoints, credentials and box templates', () => {
  expect(quota.kind).toBe('ResourceQuota')
  const owned = ['webhookendpoints', 'registrycredentials', 'boxtemplates']
  expect(limited).toEqual(owned.map(countOf))
  const plurals = kinds.map(({ plural }) => plural)
  expect(plurals).toEqual(expect.arrayContaining(owned))
})

test.each(['webhookdeliveries', 'deliverysegments', 'outcomesegments'])(
  'no quota is for %s, which Davit creates',
  (plural) => {
    expect(limited).not.toContain(countOf(plural))
  },
)

test.each(Object.entries(quota.spec.hard))('%s has a whole number, as text: %s', (_, most) => {
  expect(most).toMatch(/^[1-9][0-9]*$/)
})
