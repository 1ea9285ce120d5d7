/** What people see of a template with kubectl, as docs/reference/box-template.md has it. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { DB, state } from '../support/baking-davit.ts'
import { kubectl } from '../support/control-plane.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { BAKE_ENV, DIGEST, JobStandIn } from '../support/job-stand-in.ts'
import { until } from '../support/until.ts'

const WORDS = 'reading manifest 17 in docker.io/library/postgres: manifest unknown'

let davit: TestDavit
let bed: JobStandIn

beforeAll(async () => {
  davit = await startDavit('box-kubectl', { env: BAKE_ENV, recordEvents: true })
  bed = new JobStandIn(davit.api, davit.organization)
})

afterAll(async () => {
  await davit?.stop()
})

function inNamespace(...args: string[]): Promise<string> {
  return kubectl(['-n', davit.organization, ...args])
}

function path(name: string, jsonPath: string): Promise<string> {
  return inNamespace('get', 'btp', name, '-o', `jsonpath={${jsonPath}}`)
}

/** The words between the columns of the only line. */
async function cells(...args: string[]): Promise<string[]> {
  const [, line = ''] = (await inNamespace('get', ...args)).trimEnd().split('\n')
  return line.split(/\s{2,}/)
}

async function events(name: string): Promise<string> {
  const described = await inNamespace('describe', 'btp', name)
  return described.slice(described.indexOf('Events:'))
}

describe('a template that is baked', () => {
  test('is waited for, shown in a line, and has its digest in its status', async () => {
    await bed.make('good', { services: [DB] })
    const waited = inNamespace('wait', 'btp/good', '--for=condition=Ready', '--timeout=30s')
    await bed.succeed('good')
    expect(await waited).toContain('condition met')
    expect(await cells('btp', 'good')).toEqual([
      'good',
      'succeeded',
      'True',
      'Baked',
      'True',
      expect.stringMatching(/^\d+s$/),
      expect.stringMatching(/^\d+s$/),
    ])
    expect(await path('good', '.status.bake.services[0].digest')).toBe(DIGEST)
    const job = await path('good', '.status.bake.job')
    expect(await inNamespace('get', `job/${job}`, '-o', 'name')).toContain(job)
  })

  test('is baked once more with an annotation', async () => {
    const first = await path('good', '.status.bake.job')
    await inNamespace(
      'annotate',
      'btp',
      'good',
      '--overwrite',
      `davit.dev/rebake-requested-at=${davit.time()}`,
    )
    await bed.succeed('good')
    await bed.templateWhen(
      'good',
      ({ status }) => status?.bake?.number === 2 && status.bake.state === 'succeeded',
    )
    expect(await path('good', '.status.bake.job')).not.toBe(first)
  })

  test('has Events that tell its bakes', async () => {
    let told = ''
    await until(
      async () => {
        told = await events('good')
        return (/Normal\s+BakeStarted\s/.test(told) && /Normal\s+Baked\s/.test(told)) || undefined
      },
      () => `its Events: ${told}`,
    )
  })
})

describe('a template whose bake failed', () => {
  test('is waited for, and says why and what to do', async () => {
    await bed.make('bad', { services: [DB] })
    const waited = inNamespace('wait', 'btp/bad', '--for=condition=Stalled', '--timeout=30s')
    await bed.fail(
      'bad',
      { service: 'db', step: 'pull', code: 'not_found_or_private', message: WORDS },
      false,
    )
    expect(await waited).toContain('condition met')
    const line = (await cells('btp', 'bad', '-o', 'wide')).join(' | ')
    expect(line).toContain(`failed | False | NotFoundOrPrivate | Unknown | db | ${WORDS}`)
    const failure = JSON.parse(await path('bad', '.status.bake.failure'))
    expect(failure).toEqual({
      service: 'db',
      step: 'pull',
      code: 'not_found_or_private',
      message: WORDS,
      fix: expect.stringContaining('Correct the image reference'),
    })
    await bed.templateWhen('bad', state('failed'))
    await until(
      async () => {
        const told = await events('bad')
        return (/Warning\s+BakeFailed/.test(told) && told.includes(WORDS)) || undefined
      },
      () => 'no Event',
    )
  })
})
