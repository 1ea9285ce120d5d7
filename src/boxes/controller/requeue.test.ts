import { beforeEach, describe, expect, test } from 'vitest'
import { LABELS, TemplateBed } from '../../../test/support/template-bed.ts'
import { events, jobs, pods, serviceAccounts } from '../../apis/core-kinds.ts'

const MINUTE_MS = 60_000
let bed: TemplateBed

beforeEach(async () => {
  bed = await TemplateBed.make()
})

describe('a template whose bake cannot begin', () => {
  test('is looked at ever less often where something is missing, and goes on when that is there', async () => {
    const account = { namespace: 'acme', name: 'box' }
    await bed.store.delete(serviceAccounts, account)
    expect(await bed.pass()).toEqual({ afterMs: MINUTE_MS })
    bed.clock.advance(10 * MINUTE_MS)
    expect(await bed.pass()).toEqual({ afterMs: 5 * MINUTE_MS })
    bed.clock.advance(600 * MINUTE_MS)
    expect(await bed.pass()).toEqual({ afterMs: 15 * MINUTE_MS })
    await bed.store.create(serviceAccounts, { metadata: account })
    await bed.pass()
    expect(bed.store.all(jobs)).toHaveLength(1)
  })

  test('is not looked at again where only a change of it helps', async () => {
    bed.organizations.remove({ name: 'acme' })
    expect(await bed.pass()).toEqual({ afterMs: undefined })
  })
})

/** A pod whose node has warned once, when it was made. */
async function warnedPod(last: object = {}): Promise<void> {
  await bed.pass()
  const { name = '', uid } = bed.store.all(jobs)[0]?.metadata ?? {}
  const ownerReferences = [{ kind: 'Job', name, uid }]
  const pod = await bed.store.create(pods, {
    metadata: { namespace: 'acme', name: `${name}-x`, labels: LABELS, ownerReferences },
  })
  await bed.store.create(events, {
    metadata: { namespace: 'acme', name: 'one' },
    involvedObject: { uid: pod.metadata.uid },
    type: 'Warning',
    reason: 'FailedMount',
    message: 'the volume is slow',
    ...last,
  })
  bed.clock.advance(11 * MINUTE_MS)
  await bed.pass()
}

describe('a pod that starts slowly', () => {
  test('is not given up for a warning that has not come again', async () => {
    await warnedPod()
    expect((await bed.status())?.bake?.state).toBe('pending')
  })

  test.for([
    ['its time', (at: string) => ({ lastTimestamp: at })],
    ['its series', (at: string) => ({ series: { lastObservedTime: at } })],
  ] as const)('is given up for one that goes on, by %s', async ([, of]) => {
    await warnedPod(of(new Date(bed.clock.now() + 9 * MINUTE_MS).toISOString()))
    expect((await bed.status())?.bake?.failure).toMatchObject({
      code: 'not_started',
      message: 'the volume is slow',
    })
  })
})
