import { beforeEach, expect, test } from 'vitest'
import { AT, DIGEST, SUCCESS, TEMPLATE, TemplateBed } from '../../../test/support/template-bed.ts'
import { boxTemplate, boxTemplates, REBAKE_ANNOTATION } from '../../apis/box-template.ts'
import { jobs, serviceAccounts } from '../../apis/core-kinds.ts'

const ACCOUNT = { namespace: 'acme', name: 'box' }
let bed: TemplateBed

beforeEach(async () => {
  bed = await TemplateBed.make()
})

async function askAgain(): Promise<void> {
  bed.clock.advance(60_000)
  const annotations = { [REBAKE_ANNOTATION]: new Date(bed.clock.now()).toISOString() }
  const object = await bed.store.patch(boxTemplates, TEMPLATE, { metadata: { annotations } })
  bed.book.apply(boxTemplate.parse(object))
  await bed.pass()
}

test('a bake that is refused, or fails, does not hide which box is there', async () => {
  await bed.pass()
  await bed.endJob(SUCCESS)
  await bed.pass()
  const job = (await bed.status())?.bake?.job
  const lastSucceeded = { job, completedAt: AT, services: [{ name: 'api', digest: DIGEST }] }
  await bed.store.delete(serviceAccounts, ACCOUNT)
  await askAgain()
  expect((await bed.status())?.bake).toMatchObject({ state: 'failed', lastSucceeded })
  await bed.store.create(serviceAccounts, { metadata: ACCOUNT })
  await bed.pass()
  expect((await bed.status())?.bake).toMatchObject({ state: 'pending', lastSucceeded })
  for (const { metadata } of bed.store.all(jobs))
    if (metadata.name === job) await bed.store.delete(jobs, { namespace: 'acme', name: metadata.name ?? '' })
  await bed.endJob('no result')
  await bed.pass()
  expect((await bed.status())?.bake).toMatchObject({ state: 'failed', lastSucceeded })
  await bed.store.delete(jobs, { namespace: 'acme', name: bed.store.all(jobs)[0]?.metadata.name ?? '' })
  await askAgain()
  await bed.endJob(SUCCESS)
  await bed.pass()
  expect((await bed.status())?.bake).toMatchObject({ state: 'succeeded' })
  expect((await bed.status())?.bake).not.toHaveProperty('lastSucceeded')
})
