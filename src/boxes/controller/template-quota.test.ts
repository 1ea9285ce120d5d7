import { beforeEach, describe, expect, test } from 'vitest'
import { TemplateBed } from '../../../test/support/template-bed.ts'
import { type BoxTemplate, boxTemplate, boxTemplates, REBAKE_ANNOTATION } from '../../apis/box-template.ts'
import { jobs } from '../../apis/core-kinds.ts'
import { API_VERSION } from '../../apis/meta.ts'
import { templatesOverQuota } from './quota.ts'

let bed: TemplateBed

beforeEach(async () => {
  bed = await TemplateBed.make()
  for (const name of ['shop-2', 'shop-3']) await make(name)
})

/** Of three templates two may be. */
async function make(name: string): Promise<void> {
  bed.clock.advance(1000)
  const spec = { services: [{ name: 'db', kind: 'catalog', image: 'postgres:17' }] }
  const metadata = { namespace: 'acme', name }
  const object = await bed.store.create(boxTemplates, {
    apiVersion: API_VERSION,
    kind: 'BoxTemplate',
    metadata,
    spec,
  })
  bed.book.apply(boxTemplate.parse(object))
}

async function read(name: string): Promise<BoxTemplate> {
  return boxTemplate.parse(await bed.store.get(boxTemplates, { namespace: 'acme', name }))
}

describe('a template beyond as many as an organization may have', () => {
  test('is not baked, and says so', async () => {
    expect(await bed.pass('acme/shop-3')).toEqual({ afterMs: undefined })
    const { status } = await read('shop-3')
    expect(status?.bake).toMatchObject({ state: 'failed', failure: { code: 'too_many_templates' } })
    const ready = status?.conditions?.find(({ type }) => type === 'Stalled')
    expect(ready).toMatchObject({ status: 'True', reason: 'TooManyTemplates' })
    expect(ready?.message).toContain('DAVIT_MAX_TEMPLATES_PER_ORGANIZATION')
    expect(bed.store.all(jobs)).toHaveLength(0)
  })

  test('costs no call once it has said so', async () => {
    await bed.pass('acme/shop-3')
    bed.book.apply(await read('shop-3'))
    const { calls } = bed.store
    await bed.pass('acme/shop-3')
    expect(bed.store.calls).toBe(calls)
  })

  test('answers a request for a bake with the same, once', async () => {
    await bed.pass('acme/shop-3')
    const annotations = { [REBAKE_ANNOTATION]: '2026-01-31T13:00:00Z' }
    await bed.store.patch(boxTemplates, { namespace: 'acme', name: 'shop-3' }, { metadata: { annotations } })
    bed.book.apply(await read('shop-3'))
    await bed.pass('acme/shop-3')
    expect((await read('shop-3')).status?.bake).toMatchObject({
      observedRebake: '2026-01-31T13:00:00Z',
      failure: { code: 'too_many_templates' },
    })
  })

  test('begins when an older one goes', async () => {
    await bed.pass('acme/shop-3')
    bed.book.apply(await read('shop-3'))
    const gone = await read('shop-2')
    bed.book.remove(gone)
    expect(templatesOverQuota(bed.book, gone).map(({ metadata }) => metadata.name)).toEqual(['shop-3'])
    await bed.pass('acme/shop-3')
    expect((await read('shop-3')).status?.bake).toMatchObject({ state: 'pending' })
  })

  test('has room as soon as an older one is being deleted, whatever holds that', async () => {
    const older = await read('shop-2')
    const deletionTimestamp = '2026-01-31T13:00:00Z'
    bed.book.apply({
      ...older,
      metadata: { ...older.metadata, resourceVersion: '1000', deletionTimestamp },
    })
    await bed.pass('acme/shop-3')
    expect((await read('shop-3')).status?.bake).toMatchObject({ state: 'pending' })
  })

  test('is the youngest, not the one that comes last by name', async () => {
    await make('a-youngest')
    await bed.pass('acme/shop-2')
    await bed.pass('acme/a-youngest')
    expect((await read('shop-2')).status?.bake?.state).toBe('pending')
    expect((await read('a-youngest')).status?.bake?.failure?.code).toBe('too_many_templates')
  })
})
