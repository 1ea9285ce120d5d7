/** What the chart makes, against the schemas of every version of Kubernetes that it is for. */
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Schema, writeSchemas } from '../support/chart/api-schemas.ts'
import { BUILD_LIMIT_MS, findChartTools } from '../support/chart/chart-tools.ts'
import { conform } from '../support/chart/conform.ts'
import { FOREIGN_KINDS } from '../support/chart/foreign-kinds.ts'
import { type Manifest, RELEASE, template } from '../support/chart/helm.ts'
import { VALUE_SETS } from '../support/chart/value-sets.ts'

const FOLDER = new URL('kubernetes/', import.meta.url)

const SETS = Object.keys(VALUE_SETS)
/** By what is set; without kinds that others bring. */
const rendered = new Map<string, Manifest[]>()

beforeAll(async () => {
  await findChartTools()
  for (const [set, values] of Object.entries(VALUE_SETS)) {
    const manifests = await template('helm4', values, RELEASE)
    rendered.set(
      set,
      manifests.filter(({ kind }) => !FOREIGN_KINDS.has(kind)),
    )
  }
}, BUILD_LIMIT_MS)

test('there are schemas of five versions', async () => {
  const versions = ['1.32', '1.33', '1.34', '1.35', '1.36']
  expect((await readdir(FOLDER)).sort()).toEqual(versions.map((version) => `${version}.json`))
})

test('an older version is refused', async () => {
  const older = { ...RELEASE, kubernetes: '1.31.9' }
  await expect(template('helm4', {}, older)).rejects.toThrow('kubeVersion: >=1.32.0-0')
})

describe.each(['1.32', '1.33', '1.34', '1.35', '1.36'])('Kubernetes %s', (version) => {
  let folder: string
  let kubernetes: string

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'davit-kubernetes-'))
    const text = await readFile(new URL(`${version}.json`, FOLDER), 'utf8')
    const document = JSON.parse(text) as { version: string; schemas: Record<string, Schema> }
    kubernetes = document.version
    expect(kubernetes.startsWith(`${version}.`)).toBe(true)
    expect(await writeSchemas(document.schemas, folder)).toBeGreaterThan(14)
  })

  afterAll(() => rm(folder, { recursive: true, force: true }))

  test('is one that the chart makes the same for as for any other', async () => {
    expect(await template('helm4', {}, { ...RELEASE, kubernetes })).toEqual(
      await template('helm4', {}, RELEASE),
    )
  })

  test.each(SETS)('takes every object where %s', async (set) => {
    const manifests = rendered.get(set) ?? []
    const summary = `Valid: ${manifests.length}, Invalid: 0, Errors: 0, Skipped: 0`
    expect(manifests.length).toBeGreaterThan(20)
    expect(await conform(manifests, folder)).toContain(summary)
  })

  test('takes no field that it does not know', async () => {
    const deployment = rendered.get('nothing is set')?.find(({ kind }) => kind === 'Deployment')
    const spec = { ...(deployment?.spec as object), replicaCount: 2 }
    expect(await conform([{ ...deployment, spec } as Manifest], folder)).toContain("'replicaCount'")
  })
})
