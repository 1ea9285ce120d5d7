/**
 * Whatever is deleted in whatever order, and whatever AWS answers meanwhile: everything ends within its bound, and what stays in
 * an account is on the list of failed deletions. Each order has its own organization and account; all run at the same time.
 */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { secrets } from '../src/apis/core-kinds.ts'
import { registryCredentials } from '../src/apis/registry-credential.ts'
import { secretsSettingsResource } from '../src/apis/secrets-settings.ts'
import { parseConfig } from '../src/cmd/config.ts'
import { createOrganizationAccounts } from '../src/cmd/dependencies.ts'
import { createMetrics } from '../src/cmd/metrics.ts'
import type { Account, Role } from '../test-support/aws/account.ts'
import { TestAws } from './support/aws/organization-account.ts'
import { fixedRandom } from './support/fake-clock.ts'
import { HELD_LIMIT_MS } from './support/secrets/promises.ts'
import { NAMESPACE, REGION, SecretsWorld, TENANT_TYPES } from './support/secrets/secrets-world.ts'
import { WireClock } from './support/secrets/wire-clock.ts'

const WHAT = ['account', 'settings', 'credentials', 'secret', 'namespace'] as const
type What = (typeof WHAT)[number]
const ANSWERS = ['normally', 'AccessDenied', 'unreachable', '503'] as const
type Answer = (typeof ANSWERS)[number]
const CREDENTIALS = ['kept', 'plain']
const GAP_MS = 3000
const REST_MS = 180_000
const LIMIT_MS = 900_000

type Case = {
  organization: string
  order: readonly What[]
  answer: Answer
  /** How the account goes. */
  end: 'closed' | 'without its role'
  account?: Account
  role?: Role
}

/** Each order with one of the answers; SECRETS_ORDERS=all has each with all of them. */
const cases: Case[] = permutations(WHAT).flatMap((order, number) =>
  ANSWERS.map((answer, turn) => ({
    organization: `org-${number}-${turn}`,
    order,
    answer,
    end: (number + turn) % 2 === 0 ? ('closed' as const) : ('without its role' as const),
  })).filter(
    (_, turn) => process.env.SECRETS_ORDERS === 'all' || turn === (number + (number >> 2)) % ANSWERS.length,
  ),
)

let aws: TestAws
let world: SecretsWorld
let clock: WireClock
let longestHeldMs = 0
const realNow = Date.now

beforeAll(async () => {
  clock = new WireClock()
  // The SDK signs with the time of the machine, which it asks for itself.
  Date.now = () => clock.now()
  aws = await TestAws.start({ clock })
  world = await SecretsWorld.start({
    organizations: cases.map(({ organization }) => organization),
    clock,
    principal: aws.operator,
    cloud: () =>
      createOrganizationAccounts({
        config: parseConfig({ DAVIT_NAMESPACE: NAMESPACE }).cloud,
        version: '0.0.0-test',
        clock,
        random: fixedRandom(),
        metrics: createMetrics({ version: '0.0.0-test' }),
      }),
  })
  world.watchers.push(lookForHeld)
  await connectAll()
  for (const one of cases) answerAs(one)
  for (let step = 0; step < WHAT.length; step += 1) {
    for (const one of cases) await remove(one, one.order[step])
    await world.elapse(GAP_MS)
  }
  await world.elapse(REST_MS)
}, LIMIT_MS)

afterAll(async () => {
  await world?.stop()
  clock?.stop()
  Date.now = realNow
  await aws?.stop()
  console.info(
    `${cases.length} orders and answers; the longest that a finalizer held something: ${longestHeldMs / 1000} s; orphans: ${world?.failedDeletions().length}`,
  )
})

async function connectAll(): Promise<void> {
  for (const { organization } of cases) await world.settings(organization, { region: REGION })
  await world.elapse(1000)
  const texts = new Map(world.allSettings().map(({ metadata, status }) => [metadata.namespace, status]))
  for (const [number, one] of cases.entries()) {
    const { trustPolicy = '', writerPolicy = '' } = texts.get(one.organization) ?? {}
    const id = String(200_000_000_000 + number)
    const { account, role } = aws.account(id, { trustPolicy, writerPolicy })
    Object.assign(one, { account, role })
    await world.settings(one.organization, { roleArn: role.arn })
  }
  await world.elapse(5000)
  for (const { organization } of cases) {
    for (const name of CREDENTIALS) {
      await world.handOver(organization, name, `value of ${name}`, name === 'kept')
      await world.credential(organization, name, { secretRef: { name } })
    }
  }
  await world.elapse(20_000)
}

function answerAs({ answer, account }: Case): void {
  if (answer === 'normally' || !account) return
  const { script } = aws.emulator
  const always = { account: account.id, times: Number.POSITIVE_INFINITY }
  if (answer === 'AccessDenied') {
    script.add({ ...always, operation: 'sts:*', effect: { code: 'AccessDenied', status: 403 } })
    script.add({ ...always, operation: 'ssm:*', effect: { code: 'AccessDeniedException', status: 400 } })
  } else script.add({ ...always, operation: '*', effect: answer === '503' ? 'unavailable' : 'cut-before' })
}

async function remove({ organization, account, role, end }: Case, what: What | undefined): Promise<void> {
  if (what === 'account' && account && role) {
    if (end === 'closed') account.close()
    else account.removeRole(role)
  }
  if (what === 'settings') await world.remove(secretsSettingsResource, organization, 'default')
  if (what === 'credentials')
    for (const name of CREDENTIALS) await world.remove(registryCredentials, organization, name)
  if (what === 'secret') await world.remove(secrets, organization, 'kept')
  if (what === 'namespace') await world.cluster.terminate(organization, TENANT_TYPES)
}

function lookForHeld(): void {
  for (const type of TENANT_TYPES) {
    for (const { metadata } of world.cluster.all(type)) {
      if (typeof metadata.deletionTimestamp !== 'string') continue
      longestHeldMs = Math.max(longestHeldMs, clock.now() - Date.parse(metadata.deletionTimestamp))
    }
  }
}

describe('deletion in every order', () => {
  test('was of parameters that were stored', () => {
    expect(
      cases.filter(({ account }) => (account?.parameters(REGION).list().length ?? 0) > CREDENTIALS.length),
    ).toEqual([])
    const created = aws.emulator.trail.entries({ operation: 'PutParameter' }).filter(({ error }) => !error)
    expect(created.length).toBeGreaterThanOrEqual(cases.length * CREDENTIALS.length)
  })

  test('ends within its bound', () => {
    expect(
      TENANT_TYPES.flatMap((type) => world.cluster.all(type).map(({ metadata }) => metadata.namespace)),
    ).toEqual([])
    expect(longestHeldMs).toBeLessThan(HELD_LIMIT_MS)
  })

  test('records what stays in an account, and nothing else', () => {
    const failedDeletions = new Map(world.failedDeletions().map((one) => [`${one.account} ${one.name}`, one]))
    const left = cases.flatMap(({ account }) =>
      (account?.parameters(REGION).list() ?? []).map(({ name }) => `${account?.id} ${name}`),
    )
    expect(left.filter((one) => !failedDeletions.has(one))).toEqual([])
    expect([...failedDeletions].filter(([key]) => !left.includes(key))).toEqual([])
  })

  test('removes everything where AWS answers and the account outlives what is deleted', () => {
    const easy = cases.filter(({ answer, order }) => answer === 'normally' && order.at(-1) === 'account')
    expect(easy.length).toBeGreaterThan(0)
    expect(easy.filter(({ account }) => (account?.parameters(REGION).list().length ?? 0) > 0)).toEqual([])
  })

  test('tells of each outcome', () => {
    const reasons = new Map<string, number>()
    for (const { reason } of world.events) reasons.set(reason, (reasons.get(reason) ?? 0) + 1)
    expect(reasons.get('ParameterOrphaned')).toBeGreaterThanOrEqual(world.failedDeletions().length)
    expect(reasons.get('ParameterRemoved')).toBeGreaterThan(0)
    expect(world.logLines.filter(({ level }) => level === 'error')).toEqual([])
    expect(aws.emulator.defects).toEqual([])
  })
})

function permutations<T>(items: readonly T[]): T[][] {
  if (items.length === 0) return [[]]
  return items.flatMap((item, at) => permutations(items.toSpliced(at, 1)).map((rest) => [item, ...rest]))
}
