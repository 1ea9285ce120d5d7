/** An organization that has more templates than it may have, on the real API server. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { code, conditionsOf, DB, state } from '../support/baking-davit.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { BAKE_ENV, JobStandIn } from '../support/job-stand-in.ts'

let davit: TestDavit
let bed: JobStandIn

beforeAll(async () => {
  const env = { ...BAKE_ENV, DAVIT_MAX_TEMPLATES_PER_ORGANIZATION: '1' }
  davit = await startDavit('box-room', { env })
  bed = new JobStandIn(davit.api, davit.organization)
})

afterAll(async () => {
  await davit?.stop()
})

test('a template beyond the limit is not baked, says so, and begins when an older one goes', async () => {
  // Of the same second the first by name is the older one.
  await bed.make('a-first', { services: [DB] })
  await bed.succeed('a-first')
  await bed.templateWhen('a-first', state('succeeded'))
  await bed.make('second', { services: [DB] })
  const beyond = await bed.templateWhen('second', code('too_many_templates'))
  expect(conditionsOf(beyond)).toMatchObject({
    Ready: 'False TooManyTemplates',
    Stalled: 'True TooManyTemplates',
  })
  expect(await bed.jobs('second')).toEqual([])
  await bed.remove('a-first')
  await bed.succeed('second')
  expect(conditionsOf(await bed.templateWhen('second', state('succeeded')))).toMatchObject({
    Ready: 'True Baked',
  })
})
