import { beforeAll, expect, test } from 'vitest'
import { type CredentialFindings, playCredentialChaos } from './credential-chaos.ts'
import { credentialReportOf } from './credential-report.ts'

/** On an idle machine it takes less than a minute. */
const LIMIT_MS = 600_000

let findings: CredentialFindings
const progress: string[] = []

// Its API server is stopped, so it is not the one that other tests use.
beforeAll(async () => {
  findings = await playCredentialChaos({
    seed: 29,
    kills: 6,
    organizations: 3,
    say: (line) => progress.push(line),
  })
  process.stdout.write(`${credentialReportOf(findings)}\n`)
}, LIMIT_MS)

test('every secret is where it belongs and nowhere else, however often the controller is killed', () => {
  expect(findings.wrong, progress.join('\n')).toEqual([])
})

test('there was something to lose', () => {
  expect(findings.acts.get('create')).toBeGreaterThan(5)
  expect(findings.acts.get('rotate')).toBeGreaterThan(5)
  expect(findings.credentials).toBeGreaterThan(0)
})
