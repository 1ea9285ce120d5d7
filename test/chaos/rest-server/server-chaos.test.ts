import { beforeAll, expect, test } from 'vitest'
import { playServerChaos, type ServerFindings } from './server-chaos.ts'
import { serverReportOf } from './server-report.ts'
import { planTroubles } from './troubles.ts'

/** On an idle machine it takes a minute. */
const LIMIT_MS = 600_000

let findings: ServerFindings
const progress: string[] = []

// Its API server is stopped, so it is not the one that other tests use.
beforeAll(async () => {
  findings = await playServerChaos({
    seed: 23,
    clients: 50,
    servers: 2,
    perSecond: 2,
    troubles: (random) => planTroubles(random, 1, [1500, 2500]),
    calmMs: 1500,
    say: (line) => progress.push(line),
  })
  process.stdout.write(`${serverReportOf(findings)}\n`)
}, LIMIT_MS)

test('everything that REST servers have accepted exists once, however they and the API server are killed', () => {
  expect(findings.wrong, progress.join('\n')).toEqual([])
})

test('the clients have met what they were to meet', () => {
  const { ledger, troubles } = findings
  expect(new Set(troubles.map(({ kind }) => kind))).toEqual(new Set(['all', 'one', 'outage']))
  expect(new Set(ledger.accepted.map(({ operation }) => operation))).toEqual(
    new Set(['publish', 'ping', 'redeliver', 'create', 'roll']),
  )
  expect(ledger.accepted.length).toBeGreaterThan(300)
  expect(ledger.retried).toBeGreaterThan(20)
  expect(ledger.repeated).toBeGreaterThan(20)
  expect(ledger.failures.get('lost')).toBeGreaterThan(0)
})
