/**
 * Kills the controller while owners create, rotate, delete and move secrets of several organizations, and AWS and the API server
 * fail now and then; in the end everything settles, and both sides are compared.
 */
import { mkdtemp, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Account } from '../../../test-support/aws/account.ts'
import type { FaultEffect } from '../../../test-support/aws/script.ts'
import { TestAws } from '../../support/aws/organization-account.ts'
import { type Installation, OPERATOR_NAMESPACE, startInstallation } from '../../support/installation.ts'
import type { RoleProcess } from '../../support/role-process.ts'
import { type Life, planLives } from '../plan.ts'
import { SeededRandom } from '../seeded-random.ts'
import { ChaosOwner } from './chaos-owner.ts'
import {
  isReady,
  judgeCalls,
  judgeCredentials,
  readCredentials,
  readFailedDeletions,
  readParameters,
  readSecretNames,
  reasonOf,
} from './credential-verdict.ts'
import { eventually } from './patience.ts'
import { addAccounts, connect } from './setting.ts'

export type CredentialChaosOptions = {
  seed: number
  kills: number
  organizations: number
  /** Prints progress, line by line. */
  say: (line: string) => void
}

export type CredentialFindings = {
  lives: readonly Life[]
  organizations: number
  /** Owners' actions and their numbers. */
  acts: ReadonlyMap<string, number>
  /** Number of calls that met a fault of AWS. */
  troubles: number
  credentials: number
  lost: number
  parameters: number
  failedDeletions: number
  calls: number
  restedAfterMs: number
  lastedMs: number
  wrong: string[]
}

const EFFECTS: FaultEffect[] = ['throttle', 'unavailable', 'cut-before', 'cut-after', { latencyMs: 300 }]
const OPERATIONS = [
  'ssm:PutParameter',
  'ssm:DeleteParameter',
  'ssm:ListTagsForResource',
  'sts:AssumeRole',
  '*',
]
const SETTINGS = { DAVIT_CLOUD_WRITES_PER_SECOND: '50', DAVIT_DRIFT_CHECK_INTERVAL: '1m' }
/** Lives are longer than in runs with only deliveries: a call of AWS takes longer than one of a receiver. */
const PATIENCE = 2
/** Retries against the cloud take some minutes at most. */
const REST_LIMIT_MS = 180_000
const QUIET_MS = 4000
/** Time for the last reconciliation of a credential on a busy machine. */
const LAST_PASS_MS = 2000
const SETTLED_LIMIT_MS = 60_000

type Running = { davit: Installation; aws: TestAws; accounts: Account[]; owners: ChaosOwner[] }

export async function playCredentialChaos(options: CredentialChaosOptions): Promise<CredentialFindings> {
  const { seed, kills, say } = options
  const random = new SeededRandom(seed)
  const aws = await TestAws.start()
  const logFolder = await mkdtemp(join(tmpdir(), 'davit-chaos-'))
  const davit = await startInstallation({ logFolder })
  say(`seed ${seed}; logs are in ${logFolder}`)
  const start = () => davit.startController({ ...SETTINGS, ...aws.environment() })
  try {
    let controller = await start()
    const running = await setUp(options, { davit, aws, random })
    const begun = performance.now()
    for (const owner of running.owners) owner.start()
    const faults = new AwsTroubles(aws, random.fork())
    const lives = planLives(random.fork(), { kills, outages: 0.1, compactions: 0.1 })
    for (const [number, life] of lives.entries()) {
      await live(running, controller, { life, faults })
      say(
        `run ${number + 1} killed ${life.killAfterMs} ms after its ${life.killed}${life.trouble ? `, ${life.trouble.kind}` : ''}`,
      )
      controller = await start()
    }
    say('no more kills; everything comes to rest')
    faults.end()
    for (const owner of running.owners) await owner.stop()
    const lastedMs = performance.now() - begun
    const rest = performance.now()
    const isAtRest = await eventually(() => rested(running), REST_LIMIT_MS)
    const restedAfterMs = performance.now() - rest
    const wrong = [
      ...(isAtRest ? [] : ['not everything came to rest']),
      ...(await errorsIn(join(logFolder, 'controller.log'))),
    ]
    const found = await compare(running, controller)
    return {
      ...found,
      lives,
      troubles: faults.met,
      restedAfterMs,
      lastedMs,
      wrong: [...wrong, ...found.wrong],
    }
  } finally {
    await davit.stop()
    await aws.stop()
  }
}

async function setUp(
  { organizations }: CredentialChaosOptions,
  { davit, aws, random }: { davit: Installation; aws: TestAws; random: SeededRandom },
): Promise<Running> {
  const accounts = addAccounts(aws)
  const owners: ChaosOwner[] = []
  for (let number = 1; number <= organizations; number += 1) {
    const name = `chaos-${number}`
    await davit.makeOrganization(name)
    const organization = await connect(davit.api, accounts, name)
    owners.push(new ChaosOwner({ api: davit.api, organization, random: random.fork() }))
  }
  return { davit, aws, accounts, owners }
}

/** Makes the next calls fail now and then. */
class AwsTroubles {
  readonly #aws: TestAws
  readonly #random: SeededRandom
  readonly #scripted: { readonly used: number }[] = []

  constructor(aws: TestAws, random: SeededRandom) {
    this.#aws = aws
    this.#random = random
  }

  get met(): number {
    return this.#scripted.reduce((sum, { used }) => sum + used, 0)
  }

  add(): void {
    const effect = this.#one(EFFECTS)
    const operation = this.#one(OPERATIONS)
    if (effect === undefined || operation === undefined) return
    const times = Math.ceil(this.#random.between(0, 6))
    this.#scripted.push(this.#aws.emulator.script.add({ operation, effect, times }))
  }

  end(): void {
    this.#aws.emulator.script.clear()
  }

  #one<T>(all: readonly T[]): T | undefined {
    return all[Math.floor(this.#random.fraction() * all.length)]
  }
}

async function live(
  { davit }: Running,
  controller: RoleProcess,
  { life, faults }: { life: Life; faults: AwsTroubles },
): Promise<void> {
  if (life.killed === 'load') await controller.untilReady()
  faults.add()
  const trouble = makeTrouble(davit, life)
  await sleep(life.killAfterMs * PATIENCE)
  await controller.kill()
  await trouble
}

async function makeTrouble({ controlPlane }: Installation, { trouble }: Life): Promise<void> {
  if (!trouble) return
  await sleep(trouble.afterMs)
  if (trouble.kind === 'compaction') return void (await controlPlane.compactEtcd())
  await controlPlane.stopApiServer()
  await sleep(trouble.outageMs)
  await controlPlane.startApiServer()
}

/** Whether no deletion or check is in progress, and every credential is Ready or reports that its account was changed. */
async function rested({ davit }: Running): Promise<boolean> {
  const all = await readCredentials(davit.api)
  return all.every(
    (one) =>
      one.metadata.deletionTimestamp === undefined && (isReady(one) || reasonOf(one) === 'AccountChanged'),
  )
}

async function compare({ davit, aws, accounts, owners }: Running, controller: RoleProcess) {
  await controller.untilReady()
  const before = await settled(davit)
  await sleep(QUIET_MS)
  const credentials = await readCredentials(davit.api)
  const failedDeletions = await readFailedDeletions(davit.api, OPERATOR_NAMESPACE)
  const parameters = readParameters(accounts).filter(({ name }) => !name.endsWith('/rc__probe'))
  const secrets = await readSecretNames(davit.api)
  const isIdle = (await versionsOf(davit)) === before
  const acts = new Map<string, number>()
  for (const { counts } of owners)
    for (const [act, count] of counts) acts.set(act, (acts.get(act) ?? 0) + count)
  return {
    organizations: owners.length,
    acts,
    credentials: credentials.length,
    lost: credentials.filter((one) => !isReady(one)).length,
    parameters: parameters.length,
    failedDeletions: failedDeletions.length,
    calls: aws.emulator.trail.entries({}).length,
    wrong: [
      ...judgeCredentials({ owners, credentials, secrets, failedDeletions, parameters }),
      ...judgeCalls(aws.emulator),
      ...(isIdle ? [] : ['something was written although nothing changed']),
      ...aws.emulator.defects.map((defect) => `the double does not know: ${JSON.stringify(defect)}`),
    ],
  }
}

async function versionsOf({ api }: Installation): Promise<string> {
  const credentials = await readCredentials(api)
  return credentials.map(({ metadata }) => `${metadata.uid} ${metadata.resourceVersion}`).join()
}

/** All may be Ready while the last reconciliation of some is still running. @returns their versions */
async function settled(davit: Installation): Promise<string> {
  const deadline = performance.now() + SETTLED_LIMIT_MS
  let before = await versionsOf(davit)
  while (performance.now() < deadline) {
    await sleep(LAST_PASS_MS)
    const now = await versionsOf(davit)
    if (now === before) break
    before = now
  }
  return before
}

/** Errors that no outage explains. */
async function errorsIn(logPath: string): Promise<string[]> {
  const lines = (await readFile(logPath, 'utf8'))
    .split('\n')
    .filter((line) => line.includes('"level":"error"'))
  return lines.filter((line) => !/Unavailable|TooManyRequests|ECONN/.test(line)).slice(0, 5)
}
