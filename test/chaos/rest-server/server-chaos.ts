/**
 * REST servers under load from many clients, while they are killed and the API server is stopped; in the end everything settles
 * and is compared.
 */
import { mkdtemp, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Installation, type ServerProcess, startInstallation } from '../../support/installation.ts'
import { untilAtRest } from '../at-rest.ts'
import { Receivers } from '../receivers.ts'
import { SeededRandom } from '../seeded-random.ts'
import { ChaosClient } from './chaos-client.ts'
import { Ledger } from './ledger.ts'
import { PatientLink } from './patient-link.ts'
import { ORDERED, type Scene, setScene, subscribersOf } from './scene.ts'
import { judgeServers, type ServerVerdict } from './server-verdict.ts'
import { readLogged, readStored } from './stored.ts'
import type { Trouble } from './troubles.ts'

export type ServerChaosOptions = {
  seed: number
  clients: number
  servers: number
  /** Maximum requests per second of each client. */
  perSecond: number
  troubles: (random: SeededRandom) => readonly Trouble[]
  /** How long the clients continue after the last fault. */
  calmMs: number
  /** Prints progress, line by line. */
  say: (line: string) => void
}

export type ServerFindings = {
  clients: number
  servers: number
  troubles: readonly Trouble[]
  /** From the first request to the last, in milliseconds. */
  lastedMs: number
  ledger: Ledger
  verdict: ServerVerdict
  /** Internal errors in the logs of the REST servers. */
  errors: string[]
  /** Descriptions of violations. */
  wrong: string[]
}

/** Keeps everything for the comparison at the end. */
const KEEP = {
  DAVIT_MAX_FINISHED_PER_ENDPOINT: '1000000',
  DAVIT_MAX_FINISHED_BYTES: '68719476736',
  DAVIT_MAX_LOG_BYTES: String(4 * 1024 ** 3),
}
/** All clients share one API token and one organization: its limits are not the subject of the test. */
const SERVER_SETTINGS = {
  DAVIT_MAX_REQUESTS_PER_KEY: '1000000',
  DAVIT_MAX_REQUESTS_PER_ORGANIZATION: '1000000',
  DAVIT_MAX_ENDPOINTS_PER_ORGANIZATION: '100000',
}
/** Turns thirty seconds into thirty milliseconds. */
const WAIT_SCALE = '0.001'

type Running = { davit: Installation; servers: ServerProcess[] }

export async function playServerChaos(options: ServerChaosOptions): Promise<ServerFindings> {
  const random = new SeededRandom(options.seed)
  const logFolder = await mkdtemp(join(tmpdir(), 'davit-chaos-'))
  const davit = await startInstallation({ logFolder })
  options.say(`seed ${options.seed}; logs are in ${logFolder}`)
  const receivers = await Receivers.start({ random: random.fork(), run: () => 0, isPoisoned: () => false })
  try {
    const controller = await davit.startController({ ...KEEP, DAVIT_WAIT_SCALE: WAIT_SCALE })
    const servers: ServerProcess[] = []
    while (servers.length < options.servers)
      servers.push(await davit.startServer({ settings: SERVER_SETTINGS }))
    await Promise.all([controller, ...servers.map(({ process }) => process)].map((one) => one.untilReady()))
    const ledger = new Ledger()
    const first = servers[0]
    if (!first) throw new Error('there has to be a REST server')
    const scene = await setScene(davit, first, {
      receiverUrl: receivers.url,
      ledger: new Ledger(),
      random: random.fork(),
    })
    const troubles = options.troubles(random.fork())
    const begun = performance.now()
    const clients = startClients(options, { scene, servers, ledger, random })
    await makeTroubles({ davit, servers }, troubles, options.say)
    await sleep(options.calmMs)
    await clients.stop()
    const lastedMs = performance.now() - begun
    options.say('no more requests; everything comes to rest')
    const rested = await untilAtRest([controller])
    const verdict = await verdictOf({ davit, scene, ledger, receivers }, servers)
    const errors = await errorsIn(servers)
    const wrong = [...(rested ? [] : ['something was still pending at the end']), ...wordsOf(ledger, verdict)]
    const { clients: count, servers: replicas } = options
    return { clients: count, servers: replicas, troubles, lastedMs, ledger, verdict, errors, wrong }
  } finally {
    await receivers.close()
    await davit.stop()
  }
}

type ClientsOf = { scene: Scene; servers: readonly ServerProcess[]; ledger: Ledger; random: SeededRandom }

function startClients(options: ServerChaosOptions, { scene, servers, ledger, random }: ClientsOf) {
  const baseUrls = servers.map(({ baseUrl }) => baseUrl)
  let ended = false
  const loops = Array.from({ length: options.clients }, async (_, number) => {
    const own = random.fork()
    const link = new PatientLink({ baseUrls, apiKey: scene.apiKey, ledger, random: own })
    const client = new ChaosClient({ number, link, scene, ledger, random: own })
    while (!ended) {
      await sleep(own.between(0, 2000 / options.perSecond))
      if (!ended) await client.act()
    }
    await link.close()
  })
  return {
    /** Resolves when each client has its answer. */
    stop: async () => {
      ended = true
      await Promise.all(loops)
    },
  }
}

async function makeTroubles(
  running: Running,
  troubles: readonly Trouble[],
  say: (line: string) => void,
): Promise<void> {
  for (const trouble of troubles) {
    await sleep(trouble.afterMs)
    const began = performance.now()
    if (trouble.kind === 'outage') await stopApiServer(running.davit, trouble)
    else await killServers(running, trouble)
    const took = Math.round(performance.now() - began)
    say(`${trouble.kind === 'outage' ? 'the API server was away' : `kill -9 of ${trouble.kind}`}: ${took} ms`)
  }
}

async function stopApiServer({ controlPlane }: Installation, { downMs }: Trouble): Promise<void> {
  await controlPlane.stopApiServer()
  await sleep(downMs)
  await controlPlane.startApiServer()
}

/** They restart with the same addresses. Resolves when they are ready. */
async function killServers({ davit, servers }: Running, { kind, downMs }: Trouble): Promise<void> {
  const doomed = kind === 'all' ? servers : servers.slice(0, 1)
  await Promise.all(doomed.map(({ process }) => process.kill()))
  await sleep(downMs)
  await Promise.all(
    [...doomed].map(async (server) => {
      const next = await davit.startServer({ port: server.port, settings: SERVER_SETTINGS })
      servers[servers.indexOf(server)] = next
      await next.process.untilReady()
    }),
  )
}

type Rested = { davit: Installation; scene: Scene; ledger: Ledger; receivers: Receivers }

async function verdictOf(
  { davit, scene, ledger, receivers }: Rested,
  servers: readonly ServerProcess[],
): Promise<ServerVerdict> {
  const baseUrls = servers.map(({ baseUrl }) => baseUrl)
  const link = new PatientLink({ baseUrls, apiKey: scene.apiKey, ledger, random: new SeededRandom(0) })
  const logged = await readLogged(link, scene)
  await link.close()
  return judgeServers({
    accepted: ledger.accepted,
    unknown: ledger.unknown,
    received: receivers.receptions,
    subscribersOf,
    orderedEndpoint: ORDERED,
    logged,
    stored: await readStored(davit.api, scene),
  })
}

/** Reads the logs of all their lives. */
async function errorsIn(servers: readonly ServerProcess[]): Promise<string[]> {
  const logs = await Promise.all(servers.map(({ logPath }) => readFile(logPath, 'utf8')))
  const lines = logs.flatMap((log) => log.split('\n')).filter((line) => line.startsWith('{'))
  return lines.filter((line) => (JSON.parse(line) as { level?: unknown }).level === 'error')
}

function wordsOf({ wrong }: Ledger, { lost, duplicates, changed, outOfOrder }: ServerVerdict): string[] {
  const found = { lost, 'made twice': duplicates, changed, 'out of order': outOfOrder }
  return [
    ...wrong,
    ...Object.entries(found).flatMap(([what, which]) =>
      which.length === 0 ? [] : [`${which.length} ${what}: ${which.slice(0, 5).join('; ')}`],
    ),
  ]
}
