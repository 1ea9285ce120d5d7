/**
 * Secrets of registries in difficult shapes go through the REST API, with and without faults. None of the REST server's output
 * contains them: answers with their headers, its log, its metrics, and its writes to the cluster.
 */

import { expect, test } from 'vitest'
import { registryCredentials } from '../src/apis/registry-credential.ts'
import { createMetrics } from '../src/cmd/metrics.ts'
import { CloudError } from '../src/credentials/cloud.ts'
import { parseRegistrySecret } from '../src/credentials/registry-secret.ts'
import { createLogger } from '../src/lib/log.ts'
import { nastySecret, traceOf } from './support/aws/nasty-secrets.ts'
import { ACME, CredentialsBed } from './support/credentials-bed.ts'
import { fc } from './support/fast-check.ts'
import { ask, KEYS, openServerBed, type ServerBed } from './support/server-bed.ts'
import { STEP_FAULTS, Steps } from './support/steps.ts'

const PATH = `/organizations/${ACME}/registry-credentials`
const SECRETS = 150

class CanaryBed {
  readonly secrets = new CredentialsBed(10_000)
  readonly metrics = createMetrics({ version: '0' })
  readonly lines: string[] = []
  readonly answers: string[] = []
  readonly steps = new Steps()
  declare server: ServerBed

  static async open(): Promise<CanaryBed> {
    const bed = new CanaryBed()
    const { clock } = bed.secrets
    const destination = { write: (line: string) => void bed.lines.push(line) }
    const log = createLogger({ level: 'info', clock, destination })
    bed.secrets.log = log
    bed.secrets.metrics = bed.metrics
    await bed.secrets.connect()
    const credentials = bed.secrets.server(bed.steps)
    bed.server = await openServerBed({ clock, credentials, log, metrics: bed.metrics })
    return bed
  }

  /** While time goes on. */
  async send(method: string, path: string, body: string, headers: Record<string, string> = {}) {
    const asked = ask(this.server, path, { method, key: KEYS.owner, body, headers })
    let isOver = false
    const end = () => {
      isOver = true
    }
    asked.then(end, end)
    while (!isOver) {
      await new Promise((resolve) => setTimeout(resolve, 1))
      this.secrets.show()
      await this.secrets.clock.elapse(20)
    }
    const answer = await asked
    this.answers.push(`${answer.status} ${JSON.stringify([...answer.headers])} ${answer.text}`)
    return answer
  }

  /** All output of the REST server. */
  async said(): Promise<string[]> {
    const stored = JSON.stringify(this.secrets.store.all(registryCredentials))
    return [...this.answers, ...this.lines, await this.metrics.render(), stored]
  }
}

/** Everything that can be done with one secret, and can go wrong. */
async function tell(bed: CanaryBed, secret: string, number: number): Promise<void> {
  const draft = { type: 'token', label: 'Any', registry: 'ghcr.io', username: 'bot', secret }
  const post = (body: unknown, headers?: Record<string, string>) =>
    bed.send('POST', PATH, typeof body === 'string' ? body : JSON.stringify(body), headers)
  const key = { 'idempotency-key': `order-${number}` }
  const made = await post(draft, key)
  await post(draft, key)
  await post({ ...draft, secret: `${secret}\n` })
  await post({ ...draft, secret: `{{${secret}}}` })
  await post({ ...draft, secret: [secret] })
  await post({ ...draft, secret: { [`a${number}`]: secret } })
  await post({ ...draft, more: secret })
  await post({ ...draft, type: 'ecr' })
  await post({ ...draft, username: 'a:b', registry: 'https://ghcr.io' })
  await post(JSON.stringify(draft).slice(0, -2))
  await post(`${JSON.stringify(draft)}${JSON.stringify(secret)}`)
  await post(JSON.stringify(draft), { 'content-type': 'text/plain' })
  const codes = ['AccessDeniedException', 'ThrottlingException', 'InvalidKeyId'] as const
  const remedies = ['permissions', 'retry', 'spec'] as const
  const at = number % remedies.length
  const failure = new CloudError(remedies[at] ?? 'retry', codes[at] ?? '', 'no', { unsure: at === 1 })
  bed.secrets.cloud.failing.set('create', failure)
  await post(draft)
  bed.steps.failAt(1 + (number % 6), STEP_FAULTS[number % 2] ?? 'fails before')
  await post(draft)
  bed.steps.clear()
  bed.secrets.cloud.failing.set('create', new Error('a mistake of ours') as never)
  await post(draft)
  const path = made.location || PATH
  await bed.send('PATCH', path, JSON.stringify({ secret: `${secret}x` }))
  bed.steps.failAt(1 + (number % 7), STEP_FAULTS[number % 2] ?? 'fails before')
  await bed.send('PATCH', path, JSON.stringify({ secret, username: 'next' }), key)
  bed.steps.clear()
}

test('no answer, no line of the log, no metric and nothing in the cluster has a secret', async () => {
  const secrets = fc
    .sample(nastySecret, { numRuns: 3 * SECRETS, seed: 4711 })
    .filter((secret) => parseRegistrySecret(secret).problem === undefined)
    .slice(0, SECRETS)
  expect(secrets.length).toBe(SECRETS)
  const bed = await CanaryBed.open()
  try {
    for (const [number, secret] of secrets.entries()) await tell(bed, secret, number)
    const said = await bed.said()
    const leaks = secrets.flatMap((secret) => {
      const trace = traceOf(secret, said)
      return trace === undefined ? [] : [{ secret, trace, in: said.find((text) => text.includes(trace)) }]
    })
    expect(leaks).toEqual([])
    // There was something to find: stored objects, and answers of each kind.
    expect(bed.secrets.cloud.held.length).toBeGreaterThanOrEqual(SECRETS)
    const statuses = new Set(bed.answers.map((answer) => answer.slice(0, 3)))
    expect([...statuses].toSorted()).toEqual(['200', '201', '400', '409', '415', '422', '500', '503'])
    expect(bed.lines.some((line) => line.includes('failed to handle request'))).toBe(true)
    // The scan finds what is planted.
    for (const secret of secrets) {
      const [first, ...forms] = [secret, JSON.stringify({ secret }), encodeURIComponent(secret)]
      expect([first, ...forms].every((form) => traceOf(secret, [...said, `x${form}x`]) !== undefined)).toBe(
        true,
      )
    }
  } finally {
    await bed.server.close()
  }
}, 120_000)
