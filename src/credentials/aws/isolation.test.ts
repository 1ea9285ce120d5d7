import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import {
  type AccountsBed,
  parameter,
  sessionRules,
  startAccountsBed,
} from '../../../test/support/aws/accounts-bed.ts'
import { failureOf } from '../../../test/support/aws/failure-of.ts'
import { SecretText } from '../../lib/redact.ts'

let bed: AccountsBed

beforeEach(async () => {
  bed = await startAccountsBed()
})

afterEach(async () => {
  vi.restoreAllMocks()
  expect(bed.aws.defects).toEqual([])
  await bed.stop()
})

/** Everything that the adapter can do, for one organization. */
async function doAll(organization: string): Promise<void> {
  const access = bed.access(organization)
  const name = `/davit/${organization}/rc_one`
  const { cloud } = bed
  await cloud.identify(access)
  await cloud.refusesOtherId(access)
  await cloud.create(access, parameter(name))
  await cloud.replace(access, name, new SecretText('rotated'))
  await cloud.tagsOf(access, name)
  await cloud.list(access, { prefix: `/davit/${organization}`, limit: 10 })
  await cloud.readable(access, `/davit/${organization}/rc__probe`)
  await cloud.remove(access, name)
}

describe('every call', () => {
  it('is made in a session of its organization, on its terms, whoever else calls at the time', async () => {
    await bed.clock.rush(Promise.all(['acme', 'umbrella', 'org-1'].map(doAll)))
    const calls = bed.aws.trail.entries({ service: 'ssm' })
    expect(calls.length).toBeGreaterThanOrEqual(27)
    for (const { session, parameters, operation } of calls) {
      const organization = String(session?.name).replace('davit-', '')
      const access = bed.access(organization)
      const terms = sessionRules(access, operation.startsWith('GetParameter') ? 'probe' : 'write')
      expect(session).toMatchObject({ ...terms, externalId: access.externalId })
      expect(JSON.stringify(parameters)).toContain(`/davit/${organization}`)
    }
    for (const { parameters } of bed.aws.trail.entries({ operation: 'AssumeRole' })) {
      expect(parameters).toMatchObject({ Policy: expect.any(String), Tags: expect.any(Array) })
      expect(parameters.Tags).toHaveLength(2)
    }
  })

  it('cannot touch what is another organization’s', async () => {
    const name = '/davit/umbrella/rc_one'
    await bed.clock.rush(bed.cloud.create(bed.access('umbrella'), parameter(name, 'theirs')))
    const acme = bed.access('acme')
    const tries: (() => Promise<unknown>)[] = [
      () => bed.cloud.create(acme, parameter('/davit/umbrella/rc_two')),
      () => bed.cloud.replace(acme, name, new SecretText('mine')),
      () => bed.cloud.remove(acme, name),
      () => bed.cloud.tagsOf(acme, name),
    ]
    for (const one of tries) {
      const error = await failureOf(bed.clock.rush(one()))
      expect(error).toMatchObject({ code: 'AccessDeniedException', remedy: 'permissions' })
    }
    const store = bed.account.parameters(acme.region)
    expect([store.value(name), store.list().length]).toEqual(['theirs', 1])
  })

  it('writes nothing to the console', async () => {
    const methods = ['log', 'info', 'warn', 'error', 'debug', 'trace'] as const
    const spies = methods.map((method) => vi.spyOn(console, method))
    const streams = [process.stdout, process.stderr].map((stream) => vi.spyOn(stream, 'write'))
    bed.aws.script.add({ operation: 'ssm:PutParameter', effect: 'cut-before' })
    await bed.clock.rush(doAll('acme'))
    for (const spy of [...spies, ...streams]) expect(spy).not.toHaveBeenCalled()
  })

  it('sends the value in the body of one request, and nowhere else', async () => {
    const value = 'canary-5e0c2f71'
    const seen: string[] = []
    bed.aws.received.watch((bytes) => seen.push(Buffer.from(bytes).toString('latin1')))
    await bed.clock.rush(bed.cloud.create(bed.access('acme'), parameter('/davit/acme/rc_one', value)))
    await bed.clock.rush(bed.cloud.list(bed.access('acme'), { prefix: '/davit/acme', limit: 10 }))
    expect(seen.length).toBeGreaterThanOrEqual(3)
    expect(seen.filter((text) => text.includes(value))).toEqual([])
  })
})
