/**
 * Several controllers and REST servers under load on a separate control plane, while they are killed, suspended, rolled and cut
 * off and their clocks are set, and while API server and etcd are stopped, compacted and filled up; in the end everything heals,
 * settles, and is compared.
 */
import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { QUIET_MS } from '../at-rest.ts'
import { Receivers } from '../receivers.ts'
import { Ledger } from '../rest-server/ledger.ts'
import { PatientLink } from '../rest-server/patient-link.ts'
import { SeededRandom } from '../seeded-random.ts'
import { isPoisoned } from '../setting.ts'
import { type Pause, Toggler } from '../toggler.ts'
import { untilServersAgree } from './agreement.ts'
import { Archive } from './archive.ts'
import { Moods } from './endpoints.ts'
import { FaultWork } from './fault-work.ts'
import { type PlanOptions, planFaults } from './faults.ts'
import { type Fleet, makeEndpoints, startFleet } from './fleet.ts'
import { aliasesOf, type FleetFindings, fleetFindingsOf } from './fleet-findings.ts'
import { faultLines, historiesOf } from './histories.ts'
import { LapseWatch } from './lapse-watch.ts'
import { untilLeasesEnd } from './left-leases.ts'
import { Passing } from './passing.ts'
import { FleetPublisher } from './publishers.ts'
import { STILL_PENDING, untilAllHasEnded, untilAllIsForgotten } from './rest.ts'
import { SENDER_HEADER } from './sender-header.ts'
import { StallWatch } from './stall-watch.ts'
import { worded } from './worded.ts'

export type FleetRunOptions = Omit<PlanOptions, 'otherVersion'> & {
  seed: number
  /** No fault begins after this time. */
  lastsMs: number
  /** REST events per second of all organizations together. */
  perSecond: number
  organizations: number
  /** Publishers wait if more deliveries than this have not been received. */
  maxBehind: number
  /** How long ended objects are kept. */
  retentionMs: number
  /** The limit of the log; absent: its size does not matter. */
  logBytes?: number
  /** Whether to wait for retention at the end, which takes minutes. */
  waitsForRetention: boolean
  /** Whether a change that one REST server has answered is promised to be active at the others. */
  serversAgree: boolean
  /** The version that members change to, by its commit, and its entry point; absent: they do not change. */
  other?: { ref: string; main: string }
  /** How far a second API server is behind; absent: there is only one. */
  behindMs?: number
  /** Prints progress, line by line. */
  say: (line: string) => void
}

export type FleetRun = FleetFindings & { lastedMs: number; stalledMs: number; load: number }

/** Turns thirty seconds into sixty milliseconds. */
const WAIT_SCALE = 0.002
const ANSWER_LIMIT_MS = 15_000
const CONNECTIONS = 16

type Scene = {
  fleet: Fleet
  receivers: Receivers
  moods: Moods
  publishers: FleetPublisher[]
  togglers: Map<string, Toggler>
  passing: Passing[]
  archive: Archive
  links: PatientLink[]
  ledger: Ledger
}

export async function playFleet(options: FleetRunOptions): Promise<FleetRun> {
  const random = new SeededRandom(options.seed)
  const folder = await mkdtemp(join(tmpdir(), 'davit-fleet-'))
  options.say(`seed ${options.seed}; logs are in ${folder}`)
  const organizations = Array.from({ length: options.organizations }, (_, index) => `org-${index}`)
  const { controllers, servers, leaseMs, retentionMs, logBytes, behindMs } = options
  await using stack = new AsyncDisposableStack()
  const many = { controllers, servers, organizations }
  const kept = { retentionMs, ...(logBytes === undefined ? {} : { logBytes }) }
  const secondServer = behindMs === undefined ? {} : { behindMs }
  const fleet = await startFleet({
    ...many,
    ...kept,
    ...secondServer,
    leaseMs,
    waitScale: WAIT_SCALE,
    folder,
  })
  stack.defer(() => fleet.stop())
  const moods = new Moods(fleet.endpoints, random.fork())
  const receivers = await Receivers.start({
    random: random.fork(),
    run: () => 0,
    runOf: (headers) => Number(headers[SENDER_HEADER]),
    manner: (endpoint) => moods.mannerOf(endpoint),
    isPoisoned,
  })
  stack.defer(() => receivers.close())
  await makeEndpoints(fleet, receivers.url)
  const calmMs = () => work.calmMs
  const scene = setScene({ fleet, receivers, moods, calmMs }, options, random)
  stack.defer(async () => void (await Promise.all(scene.links.map((link) => link.close()))))
  const stalls = StallWatch.start()
  stack.defer(() => stalls.stop())
  const lapses = new LapseWatch(fleet, leaseMs)
  lapses.start()
  stack.defer(() => lapses.stop())
  const begun = performance.now()
  const work = new FaultWork(fleet, random.fork(), options.say, options.other?.main)
  await playFaults(scene, work, options, random.fork())
  const wrong = [...work.wrong, ...(await comeToRest(scene, work, options))]
  const lastedMs = performance.now() - begun
  const toggled = [...scene.togglers].map(([name, { pauses }]): [string, readonly Pause[]] => [name, pauses])
  const pauses = new Map([...toggled, ...scene.passing.flatMap((one) => one.pauses)])
  const faults = [...work.records, ...lapses.without(work.records)]
  const findings = await fleetFindingsOf({
    ...scene,
    receptions: receivers.receptions,
    faults,
    silences: lapses.silences,
    renewals: lapses.renewals,
    looks: lapses.looks,
    pauses,
    stalls: stalls.stalls,
    loads: stalls.loads,
    waitScale: WAIT_SCALE,
    leaseMs,
    ...kept,
    serversAgree: options.serversAgree,
    wrong,
  })
  if (findings.wrong.length > 0) {
    await writeFile(join(folder, 'objects.json'), JSON.stringify(scene.archive.deliveries))
    const path = join(folder, 'histories.txt')
    const { segments, outcomes } = scene.archive
    const logEvidence = { segments, outcomes, aliases: aliasesOf(scene.passing) }
    const lines = [...faultLines(faults), ...historiesOf(findings, receivers.receptions, logEvidence)]
    await writeFile(path, `${lines.join('\n')}\n`)
    options.say(`${path} lists what is wrong, attempt by attempt, and objects.json every object`)
  }
  return { ...findings, lastedMs, stalledMs: stalls.longestMs, load: stalls.load }
}

function setScene(
  { calmMs, ...parts }: Pick<Scene, 'fleet' | 'receivers' | 'moods'> & { calmMs: () => number },
  options: FleetRunOptions,
  random: SeededRandom,
): Scene {
  const { fleet, receivers } = parts
  const ledger = new Ledger()
  const baseUrls = fleet.servers.map(({ baseUrl }) => baseUrl)
  const links = new Map(
    [...fleet.keys].map(([organization, apiKey]) => {
      const limits = { connections: CONNECTIONS, answerLimitMs: ANSWER_LIMIT_MS, calmMs }
      return [organization, new PatientLink({ baseUrls, apiKey, ledger, random: random.fork(), ...limits })]
    }),
  )
  let numbers = 0
  const publishers: FleetPublisher[] = []
  const behind = () =>
    publishers.reduce((sum, { deliveries }) => sum + deliveries, 0) -
    [...receivers.taken.values()].reduce((sum, { size }) => sum + size, 0)
  for (const [organization, link] of links)
    publishers.push(
      new FleetPublisher({
        organization,
        link,
        api: fleet.davit.api,
        ledger,
        perSecond: options.perSecond / options.organizations,
        mayGoOn: () => behind() < options.maxBehind,
        nextNumber: () => {
          numbers += 1
          return numbers
        },
        random: random.fork(),
      }),
    )
  const toggled = fleet.endpoints.filter((endpoint) => endpoint.toggled)
  const togglers = new Map(
    toggled.map(({ name, organization }) => {
      const link = links.get(organization)
      if (!link) throw new Error(`nobody speaks for ${organization}`)
      const set = switchBy(link, organization, name)
      return [name, new Toggler({ set, random: random.fork(), long: longPauses(options) })]
    }),
  )
  const passing = [...links].map(
    ([organization, link]) =>
      new Passing({ organization, link, receiverUrl: receivers.url, random: random.fork() }),
  )
  const { retentionMs } = options
  const archive = new Archive({ api: fleet.davit.api, organizations: [...fleet.keys.keys()], retentionMs })
  return { ...parts, publishers, togglers, passing, archive, links: [...links.values()], ledger }
}

/** Long enough for a suspended or cut off process to return before some of them end. */
function longPauses({ leaseMs, pace }: FleetRunOptions): [number, number] {
  return [leaseMs + 6000 * pace, leaseMs + 60_000 * pace]
}

/** A freshly started API server may not have read its roles yet; then a client without rights is told that nothing exists. */
const UNREAD_MS = 10_000
const AGAIN_MS = 200

/** Over REST; an answer means that the change is active. */
function switchBy(link: PatientLink, organization: string, name: string) {
  const path = `/organizations/${organization}/webhooks/whe_${name}`
  let turn = 0
  return async (status: string) => {
    let refusedAt: number | undefined
    for (;;) {
      turn += 1
      const answer = await link.ask({ method: 'PATCH', path, body: { status } }, turn)
      if (answer?.status === 200) return
      if (answer?.status === 404) {
        refusedAt ??= performance.now()
        await sleep(AGAIN_MS)
        if (performance.now() - refusedAt < UNREAD_MS) continue
      }
      if (answer) throw new Error(`PATCH ${path}: ${answer.status} ${JSON.stringify(answer.json)}`)
    }
  }
}

async function playFaults(
  { publishers, togglers, passing, archive }: Scene,
  work: FaultWork,
  options: FleetRunOptions,
  random: SeededRandom,
): Promise<void> {
  if (!(await work.untilReady())) throw new Error('the fleet does not become ready')
  archive.start()
  for (const one of [...publishers, ...togglers.values(), ...passing]) one.start()
  const plan = planFaults(random, { ...options, otherVersion: options.other !== undefined })
  await work.play(plan, performance.now() + options.lastsMs)
}

/** After the load, REST servers begin to be asked, and have to agree with the objects. */
const ASKED_AFTER_MS = 20_000
const AGREE_AFTER_MS = 30_000
/** The same once everything is at rest. */
const AT_REST_MS = 15_000

async function agreementAfterLoad(fleet: Fleet, loadEndedAt: number): ReturnType<typeof untilServersAgree> {
  await sleep(ASKED_AFTER_MS)
  return await untilServersAgree(fleet, loadEndedAt + AGREE_AFTER_MS)
}

/** Everything heals, accepted deliveries end, the next start finds no work, and ended objects are deleted. */
async function comeToRest(
  { fleet, moods, publishers, togglers, passing, archive }: Scene,
  work: FaultWork,
  { retentionMs, waitsForRetention, say }: FleetRunOptions,
): Promise<string[]> {
  const wrong: string[] = []
  say('no more faults; everything comes to rest')
  moods.end()
  if (!(await work.untilReady())) wrong.push('the fleet is not ready in the end')
  await Promise.all([...togglers.values(), ...passing].map((one) => one.stop()))
  await Promise.all(publishers.map((publisher) => publisher.stop()))
  const loadEndedAt = performance.now()
  const [stand, early] = await Promise.all([untilAllHasEnded(fleet), agreementAfterLoad(fleet, loadEndedAt)])
  say('everything has ended')
  if (stand !== undefined) {
    wrong.push(STILL_PENDING)
    say(stand)
  }
  const last = await untilServersAgree(fleet, performance.now() + AT_REST_MS)
  say(
    `compared ${early.compared} answers of REST servers with objects half a minute after the load, ${last.compared} at rest`,
  )
  wrong.push(
    ...worded({
      'deliveries are not the same by REST half a minute after the load': early.wrong,
      'deliveries are not the same by REST': last.wrong,
    }),
  )
  if (!(await untilLeasesEnd(fleet))) wrong.push('Leases of replicas that are no more stay')
  await Promise.all(fleet.controllers.map((member) => member.terminate()))
  for (const member of fleet.controllers) member.start(false)
  if (!(await work.untilReady())) wrong.push('the fleet does not start again')
  await sleep(QUIET_MS)
  if (waitsForRetention) wrong.push(...(await untilAllIsForgotten(archive, retentionMs)))
  await archive.stop()
  await Promise.all(fleet.members.map((member) => member.terminate()))
  return [...wrong, ...archive.wrong]
}
