import { describe, expect, test } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { calling, FaultyApi } from '../../../test/support/faulty-api.ts'
import { MemoryStore } from '../../../test/support/memory-store.ts'
import { type SeenEvent, seeingRecorder } from '../../../test/support/seen-events.ts'
import { configMaps } from '../../apis/core-kinds.ts'
import type { FailedDeletionRecord } from '../../apis/registry-credential.ts'
import { ApiError } from '../../kube/client.ts'
import { FAILED_DELETIONS_NAME, FailedDeletions } from './failed-deletions.ts'

const REF = { namespace: 'davit-system', name: FAILED_DELETIONS_NAME }
type Orphan = Omit<FailedDeletionRecord, 'recordedAt'>

function orphan(name: string, change: Partial<Orphan> = {}): Orphan {
  return {
    name: `/davit/acme/rc_${name}`,
    account: '111111111111',
    region: 'eu-west-1',
    roleArn: 'arn:aws:iam::111111111111:role/davit',
    reason: 'AccessDenied',
    organization: 'acme',
    organizationUid: 'u-acme',
    ...change,
  }
}

function bed() {
  const clock = new FakeClock()
  const store = new MemoryStore(() => clock.now())
  const api = new FaultyApi(store)
  const events: SeenEvent[] = []
  const errors: [string, unknown][] = []
  const counted: string[] = []
  const nothing = () => undefined
  const log = {
    info: nothing,
    warn: nothing,
    error: (_event: string, line: string, fields?: object) => void errors.push([line, fields]),
  }
  const metrics = { parameterRemoved: (outcome: string) => void counted.push(outcome) }
  const { namespace } = REF
  const options = { resources: api, namespace, events: seeingRecorder(events), metrics, clock, log }
  const ledger = () => new FailedDeletions(options)
  const names = async () => (await ledger().list()).map(({ name }) => name.replace('/davit/acme/rc_', ''))
  const lines = () => (store.all(configMaps)[0]?.data ?? {}) as Record<string, string>
  const writes = () => api.calls.filter(({ verb }) => verb !== 'get').length
  return { clock, store, api, events, errors, counted, ledger, names, lines, writes }
}

describe('the list of orphaned parameters', () => {
  test('is there when it is needed, and empties', async () => {
    const { ledger, lines, names, events } = bed()
    const one = ledger()
    expect(await one.list()).toEqual([])
    await one.add(orphan('a'))
    expect([await names(), one.size, events.map(({ reason }) => reason)]).toEqual([
      ['a'],
      1,
      ['ParameterOrphaned'],
    ])
    await one.remove(orphan('a'))
    expect([lines(), one.size]).toEqual([{}, 0])
  })

  test('has each parameter once, with the time of the first and the words of the last', async () => {
    const { clock, ledger, writes } = bed()
    const one = ledger()
    await one.add(orphan('a'))
    const [{ recordedAt } = { recordedAt: '' }] = await one.list()
    clock.advance(60_000)
    await one.add(orphan('a'))
    expect(writes()).toBe(1)
    await one.add(orphan('a', { reason: 'Throttled', organizationUid: 'u-next' }))
    expect(await one.list()).toEqual([
      { ...orphan('a', { reason: 'Throttled', organizationUid: 'u-next' }), recordedAt },
    ])
  })

  test('tells apart accounts and regions', async () => {
    const { ledger } = bed()
    const one = ledger()
    await one.add(orphan('a'))
    await one.add(orphan('a', { account: '222222222222' }))
    await one.add(orphan('a', { region: 'eu-central-1' }))
    await one.remove(orphan('a'))
    expect((await one.list()).map(({ account, region }) => `${account} ${region}`).sort()).toEqual([
      '111111111111 eu-central-1',
      '222222222222 eu-west-1',
    ])
  })

  test('is oldest first', async () => {
    const { clock, ledger, names } = bed()
    for (const name of ['c', 'a', 'b']) {
      await ledger().add(orphan(name))
      clock.advance(1000)
    }
    expect(await names()).toEqual(['c', 'a', 'b'])
  })

  test('takes hundreds at a time with few writes', async () => {
    const { ledger, names, writes } = bed()
    const one = ledger()
    await Promise.all(Array.from({ length: 300 }, (_, n) => one.add(orphan(`n${n}`))))
    expect(await names()).toHaveLength(300)
    expect(writes()).toBeLessThanOrEqual(2)
  })

  test('forgets a line that its operator has taken out by its key', async () => {
    const { store, ledger, names, lines } = bed()
    const one = ledger()
    await one.add(orphan('closed'))
    const [key = ''] = Object.keys(lines())
    await one.add(orphan('other'))
    await store.patch(configMaps, REF, { data: { [key]: null } })
    expect([await names(), (await one.list()).length, one.size]).toEqual([['other'], 1, 1])
    await one.add(orphan('third'))
    expect(await names()).toEqual(['other', 'third'])
  })

  test('is kept right by two processes that write it at a time', async () => {
    const { ledger, names } = bed()
    const [one, two] = [ledger(), ledger()]
    for (let n = 0; n < 10; n += 1) {
      await Promise.all([
        one.add(orphan(`one-${n}`)),
        two.add(orphan(`two-${n}`)),
        n ? one.remove(orphan(`two-${n - 1}`)) : undefined,
      ])
    }
    expect((await names()).filter((name) => name.startsWith('one'))).toHaveLength(10)
    expect((await names()).filter((name) => name.startsWith('two'))).toEqual(['two-9'])
  })

  test('is written after conflicts, and not for ever', async () => {
    const { api, ledger, names } = bed()
    await ledger().add(orphan('a'))
    const conflict = () => new ApiError('Conflict', 'changed', { status: 409 })
    api.fail(calling('patch', configMaps), { before: conflict() }, 3)
    await ledger().add(orphan('b'))
    expect(await names()).toEqual(['a', 'b'])
    api.fail(calling('patch', configMaps), { before: conflict() }, 100)
    await expect(ledger().add(orphan('c'))).rejects.toThrow('changed')
  })

  test('says that it could not be written while the API server is away, and goes on then', async () => {
    const { api, ledger, names, errors } = bed()
    const one = ledger()
    api.fail(calling('create', configMaps), { before: new ApiError('Unavailable', 'away') })
    await expect(one.add(orphan('a'))).rejects.toThrow('away')
    await one.add(orphan('a'))
    expect([await names(), errors]).toEqual([['a'], []])
  })

  test('holds up nothing where the API server refuses it for good: the log has the line', async () => {
    const { api, ledger, errors, events } = bed()
    api.fail(calling('create', configMaps), { before: new ApiError('Forbidden', 'no', { status: 403 }) })
    await ledger().add(orphan('a'))
    expect(errors).toEqual([
      [expect.stringContaining('failed to record'), expect.objectContaining(orphan('a'))],
    ])
    expect(events).toHaveLength(1)
  })
})

describe('what somebody else wrote into it', () => {
  test('stays, and is in nobody’s way', async () => {
    const { store, ledger, names, lines } = bed()
    const data = { note: 'hello', broken: '{"name":', other: '{"name":"x"}', list: '[]', nothing: 'null' }
    await store.create(configMaps, { metadata: REF, data })
    await ledger().add(orphan('a'))
    await ledger().remove(orphan('a'))
    expect([await names(), lines()]).toEqual([[], data])
  })

  test('can be taken away though it is under another key', async () => {
    const { store, ledger, lines } = bed()
    const line = JSON.stringify({ ...orphan('a'), recordedAt: '2026-01-01T00:00:00.000Z' })
    await store.create(configMaps, { metadata: REF, data: { 'by-hand': line } })
    await ledger().remove(orphan('a'))
    expect(lines()).toEqual({})
  })

  test('goes when there is no room for it', async () => {
    const { store, ledger, names, lines, errors } = bed()
    await store.create(configMaps, { metadata: REF, data: { junk: 'x'.repeat(950_000) } })
    await ledger().add(orphan('a'))
    expect([await names(), Object.keys(lines()).length, errors.length]).toEqual([['a'], 1, 1])
  })
})

describe('a list that is full', () => {
  test('gives up the oldest, says so in the log, and counts it', async () => {
    const { clock, ledger, names, errors, counted } = bed()
    const one = ledger()
    await one.add(orphan('oldest'))
    clock.advance(1000)
    await Promise.all(Array.from({ length: 1000 }, (_, n) => one.add(orphan(`n${n}`))))
    expect(await names()).toHaveLength(1000)
    expect(await names()).not.toContain('oldest')
    expect(errors).toEqual([
      [expect.stringContaining('full'), expect.objectContaining({ name: '/davit/acme/rc_oldest' })],
    ])
    expect(counted).toEqual(['forgotten'])
  })

  test('stays below what an object may have, however long the words are', async () => {
    const { ledger, lines } = bed()
    const one = ledger()
    const long = { roleArn: `arn:${'r'.repeat(1500)}`, reason: 'ü'.repeat(500) }
    await Promise.all(Array.from({ length: 800 }, (_, n) => one.add(orphan(`n${n}`, long))))
    const bytes = Object.entries(lines()).reduce((sum, line) => sum + Buffer.byteLength(line.join('')), 0)
    expect(bytes).toBeLessThanOrEqual(900_000)
    expect(bytes).toBeGreaterThan(800_000)
  })

  describe('shared by organizations', () => {
    const of = (organization: string, number: number, change: Partial<Orphan> = {}) =>
      orphan('x', { organization, name: `/davit/${organization}/rc_${number}`, ...change })
    type Given = { what: string; held: [organization: string, count: number][]; want: Record<string, number> }

    /** Adds the records in this order, a second between organizations; at the end one of each again. */
    async function fill({ held }: Given, change: (organization: string, number: number) => Partial<Orphan>) {
      const one = bed()
      const ledger = one.ledger()
      for (const [organization, count] of held) {
        const add = (_: unknown, n: number) => ledger.add(of(organization, n, change(organization, n)))
        await Promise.all(Array.from({ length: count }, add))
        one.clock.advance(1000)
      }
      const kept = Map.groupBy(await ledger.list(), ({ organization }) => organization)
      return { ...one, kept: Object.fromEntries([...kept].map(([name, { length }]) => [name, length])) }
    }

    const ROWS: Given[] = [
      {
        what: 'a quiet one that came first keeps its own',
        held: [
          ['quiet', 3],
          ['loud', 1000],
        ],
        want: { quiet: 3, loud: 997 },
      },
      {
        what: 'quiet ones that come later find room',
        held: [
          ['loud', 1000],
          ['quiet', 3],
          ['calm', 1],
        ],
        want: { quiet: 3, calm: 1, loud: 996 },
      },
      {
        what: 'two loud ones give up as much as each other',
        held: [
          ['loud', 700],
          ['quiet', 2],
          ['noisy', 700],
        ],
        want: { quiet: 2, loud: 499, noisy: 499 },
      },
      {
        what: 'one that adds more than all fit gives up its own alone',
        held: [
          ['quiet', 20],
          ['loud', 1500],
        ],
        want: { quiet: 20, loud: 980 },
      },
    ]

    test.each(ROWS)('by number: $what', async (given) => {
      const { kept, counted, errors } = await fill(given, () => ({}))
      expect(kept).toEqual(given.want)
      const dropped = given.held.reduce((sum, [, count]) => sum + count, 0) - 1000
      expect([counted.length, errors.length]).toEqual([dropped, dropped])
    })

    test('by number: one that is recreated again and again is one', async () => {
      const given = ROWS[0] as Given
      const { kept } = await fill(given, (name, n) => ({ organizationUid: `${name}-${n}` }))
      expect(kept).toEqual(given.want)
    })

    test.each([
      ['long roles', { roleArn: 'r'.repeat(1500) }],
      ['long roles and words', { roleArn: 'r'.repeat(900), reason: 'ü'.repeat(300) }],
    ])('by size: one with %s gives up its own', async (_, long) => {
      const held: Given['held'] = [
        ['small', 300],
        ['large', 900],
      ]
      const { kept, lines } = await fill({ what: '', held, want: {} }, (name) =>
        name === 'large' ? long : {},
      )
      expect(kept.small).toBe(300)
      expect(kept.large).toBeLessThan(700)
      const bytes = Object.entries(lines()).reduce((sum, line) => sum + Buffer.byteLength(line.join('')), 0)
      expect(bytes).toBeGreaterThan(890_000)
    })
  })
})
