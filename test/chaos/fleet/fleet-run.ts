/**
 * Several controllers and facades under load on a control plane of their own, while they are killed, suspended, rolled, cut off and
 * their clocks are set, and while API server and etcd go away, forget and fill up; then everything heals, is let come to rest,
 * and is compared.
 */
import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { QUIET_MS, untilAtRest } from '../at-rest.ts'
import { Ledger } from '../facade/ledger.ts'
import { PatientLink } from '../facade/patient-link.ts'
import { Receivers } from '../receivers.ts'
import { SeededRandom } from '../seeded-random.ts'
import { isPoisoned } from '../setting.ts'
import { type Pause, Toggler } from '../toggler.ts'
import { Moods } from './endpoints.ts'
import { FaultWork } from './fault-work.ts'
import { type PlanOptions, planEpisodes } from './faults.ts'
import { type Fleet, makeEndpoints, startFleet } from './fleet.ts'
import { type FleetFindings, fleetFindingsOf } from './fleet-findings.ts'
import { faultLines, historiesOf } from './histories.ts'
import { untilLeasesEnd } from './left-leases.ts'
import { FleetPublisher } from './publishers.ts'
import { SENDER_HEADER } from './sender-header.ts'
import { StallWatch } from './stall-watch.ts'

export type FleetRunOptions = Omit<PlanOptions, 'leaseMs'> & {
  seed: number
  /** No new episode begins later. */
  lastsMs: number
  /** Events over REST in a second, of all organizations together. */
  perSecond: number
  organizations: number
  leaseMs: number
  /** Whether a change that one facade has answered is promised to be in force at the others. */
  facadesAgree: boolean
  /** Told what happens, line by line. */
  say: (line: string) => void
}

export type FleetRun = FleetFindings & { lastedMs: number; stalledMs: number }

/** Thirty seconds become sixty milliseconds. */
const WAIT_SCALE = 0.002
/** Deliveries that were accepted and not received, beyond which publishers wait. */
const MAX_BEHIND = 4000
const ANSWER_LIMIT_MS = 15_000
const CONNECTIONS = 16

type Scene = {
  fleet: Fleet
  receivers: Receivers
  moods: Moods
  publishers: FleetPublisher[]
  togglers: Map<string, Toggler>
  links: PatientLink[]
  ledger: Ledger
}

export async function playFleet(options: FleetRunOptions): Promise<FleetRun> {
  const random = new SeededRandom(options.seed)
  const folder = await mkdtemp(join(tmpdir(), 'davit-fleet-'))
  options.say(`seed ${options.seed}; logs are in ${folder}`)
  const organizations = Array.from({ length: options.organizations }, (_, index) => `org-${index}`)
  const { controllers, facades } = options
  await using stack = new AsyncDisposableStack()
  const fleet = await startFleet({ controllers, facades, organizations, waitScale: WAIT_SCALE, folder })
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
  const scene = setScene({ fleet, receivers, moods }, options, random)
  stack.defer(async () => void (await Promise.all(scene.links.map((link) => link.close()))))
  const stalls = StallWatch.start()
  stack.defer(() => stalls.stop())
  const begun = performance.now()
  const work = new FaultWork(fleet, options.say)
  const wrong = await playFaults(scene, work, options, random.fork())
  wrong.push(...(await comeToRest(scene, work, options.say)))
  const lastedMs = performance.now() - begun
  const pauses = new Map([...scene.togglers].map(([name, { pauses }]) => [name, pauses as readonly Pause[]]))
  const findings = await fleetFindingsOf({
    ...scene,
    receptions: receivers.receptions,
    faults: work.records,
    pauses,
    stalls: stalls.stalls,
    waitScale: WAIT_SCALE,
    facadesAgree: options.facadesAgree,
    wrong,
  })
  if (findings.wrong.length > 0) {
    const path = join(folder, 'histories.txt')
    const lines = [...faultLines(work.records), ...historiesOf(findings.verdict, receivers.receptions)]
    await writeFile(path, `${lines.join('\n')}\n`)
    options.say(`what is wrong is told attempt by attempt in ${path}`)
  }
  return { ...findings, lastedMs, stalledMs: stalls.longestMs }
}

function setScene(
  parts: Pick<Scene, 'fleet' | 'receivers' | 'moods'>,
  options: FleetRunOptions,
  random: SeededRandom,
): Scene {
  const { fleet, receivers } = parts
  const ledger = new Ledger()
  const baseUrls = fleet.facades.map(({ baseUrl }) => baseUrl)
  const links = new Map(
    [...fleet.keys].map(([organization, apiKey]) => {
      const limits = { connections: CONNECTIONS, answerLimitMs: ANSWER_LIMIT_MS }
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
        mayGoOn: () => behind() < MAX_BEHIND,
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
      return [name, new Toggler({ set: switchBy(link, organization, name), random: random.fork() })]
    }),
  )
  return { ...parts, publishers, togglers, links: [...links.values()], ledger }
}

/** Over REST; an answer says that it is in force. */
function switchBy(link: PatientLink, organization: string, name: string) {
  const path = `/organizations/${organization}/webhooks/whe_${name}`
  let turn = 0
  return async (status: string) => {
    for (;;) {
      turn += 1
      const answer = await link.ask({ method: 'PATCH', path, body: { status } }, turn)
      if (answer?.status === 200) return
      if (answer) throw new Error(`PATCH ${path}: ${answer.status} ${JSON.stringify(answer.json)}`)
    }
  }
}

/** @returns what was wrong, in words */
async function playFaults(
  { publishers, togglers }: Scene,
  work: FaultWork,
  options: FleetRunOptions,
  random: SeededRandom,
): Promise<string[]> {
  const wrong: string[] = []
  if (!(await work.untilReady())) throw new Error('the fleet does not become ready')
  for (const publisher of publishers) publisher.start()
  for (const toggler of togglers.values()) toggler.start()
  const end = performance.now() + options.lastsMs
  for (const episode of planEpisodes(random, options)) {
    if (performance.now() > end) break
    if (!(await work.play(episode)))
      wrong.push(`not ready again after ${episode.faults.map(({ kind }) => kind)}`)
  }
  return wrong
}

/** Everything heals, what was accepted ends, and the next start finds nothing to do again. */
async function comeToRest(
  { fleet, moods, publishers, togglers }: Scene,
  work: FaultWork,
  say: (line: string) => void,
): Promise<string[]> {
  const wrong: string[] = []
  say('no more faults; everything comes to rest')
  moods.end()
  if (!(await work.untilReady())) wrong.push('the fleet is not ready in the end')
  await Promise.all([...togglers.values()].map((toggler) => toggler.stop()))
  await Promise.all(publishers.map((publisher) => publisher.stop()))
  const controllers = () => fleet.controllers.map(({ process }) => process)
  if (!(await untilAtRest(controllers()))) wrong.push('something was still pending at the end')
  if (!(await untilLeasesEnd(fleet))) wrong.push('Leases of replicas that are no more stay')
  await Promise.all(fleet.controllers.map((member) => member.terminate()))
  for (const member of fleet.controllers) member.start(false)
  if (!(await work.untilReady())) wrong.push('the fleet does not start again')
  await sleep(QUIET_MS)
  await Promise.all(fleet.members.map((member) => member.terminate()))
  return wrong
}
