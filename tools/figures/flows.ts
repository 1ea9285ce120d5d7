/** The flows that are observed, each from its cause to its visible effect. */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { requestApi } from '../../playground/control-plane/api-server.ts'
import { until } from '../../test/support/until.ts'
import type { CoveredRole } from './covered-role.ts'
import { ORGANIZATION, type Scene } from './scene.ts'

export type Flow = {
  title: string
  /** Prepares the scene for the flow. @returns the processes that take part */
  prepare(): Promise<CoveredRole[]>
  /** Resolves when the effect is visible. */
  play(): Promise<void>
  /** Checks that would themselves run code of Davit. @throws Error if the flow is not complete */
  verify?(): Promise<void>
}

const EVENT_TYPE = 'environment.started'
const SHARDS = 256
/**
 * Controllers get shards by their names. Next to a replica `first`, this one owns the shard of the leader tasks and that of the
 * organization, so that each play hands over the same shards.
 */
const SECOND_REPLICA = 'second'
/** Endpoints have random UIDs: with this many, the second controller owns some. */
const SPREAD = 8
/** Asking a controller for its shards would run code outside of the flow; the takeover takes much less time than this. */
const TAKE_OVER_MS = 3000

/** From the POST of an event until the list of deliveries reports its success. */
export async function eventFlow(scene: Scene): Promise<Flow> {
  const endpoint = await makeEndpoint(scene)
  return {
    title: 'event over REST, until its delivery is in the log',
    prepare: async () => [scene.controller, scene.server],
    play: async () => await untilSucceeded(scene, endpoint, await publish(scene)),
  }
}

/** From applying a credential and its input Secret until the value is stored in the account. */
export function credentialFlow({ controller, davit }: Scene): Flow {
  const { access } = davit.controlPlane
  const ask = async (method: string, path: string, body?: object) => {
    const answer = await requestApi(access, { method, path, ...(body && { body }) })
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(answer.body)}`)
    return answer.body
  }
  const home = `/apis/davit.dev/v1alpha1/namespaces/${ORGANIZATION}/registrycredentials`
  return {
    title: 'RegistryCredential, until Stored',
    prepare: async () => [controller],
    async play() {
      const name = `token-${randomBytes(4).toString('hex')}`
      await ask('POST', `/api/v1/namespaces/${ORGANIZATION}/secrets`, inputSecret(name))
      await ask('POST', home, credential(name))
      await until(
        async () => isStored(await ask('GET', `${home}/${name}`)),
        () => `the credential ${name} was not stored`,
      )
    },
  }
}

/** From SIGTERM to one of two controllers until the other owns all shards. */
export async function shardFlow(scene: Scene): Promise<Flow> {
  const staying = scene.controller
  let leaving = staying
  const endpoints: string[] = []
  for (let made = 0; made < SPREAD; made++) endpoints.push(await makeEndpoint(scene))
  const eventId = await publish(scene)
  for (const endpoint of endpoints) await untilSucceeded(scene, endpoint, eventId)
  return {
    title: 'shards of a stopped controller, until another owns them',
    async prepare() {
      leaving = await scene.startController(SECOND_REPLICA)
      await until(
        async () => ((await ownedBy(leaving)) > 0 && (await sharedOut([leaving, staying]))) || undefined,
        () => 'the second controller owns no shards',
      )
      return [leaving, staying]
    },
    async play() {
      await leaving.process.stop()
      await sleep(TAKE_OVER_MS)
    },
    async verify() {
      if (!(await sharedOut([staying]))) throw new Error('no controller took over the shards')
    },
  }
}

/** @returns its path below that of the organization */
async function makeEndpoint({ rest, receiverUrl }: Scene): Promise<string> {
  const body = { url: `${receiverUrl}/figures`, eventTypes: [EVENT_TYPE] }
  const { location } = await rest({ want: 201, method: 'POST', path: '/webhooks', body })
  return `/webhooks/${location?.split('/').at(-1)}`
}

/** @returns the id of the event */
async function publish({ rest }: Scene): Promise<string> {
  const body = { type: EVENT_TYPE, data: { environmentId: 'env_1' } }
  const { json } = await rest({ want: 202, method: 'POST', path: '/events', body })
  return (json as { eventId: string }).eventId
}

async function untilSucceeded({ rest }: Scene, endpoint: string, eventId: string): Promise<void> {
  await until(
    async () => {
      const { json } = await rest({ want: 200, method: 'GET', path: `${endpoint}/deliveries` })
      const { deliveries } = json as { deliveries: { deliveryId: string; status: string }[] }
      return deliveries.find((one) => one.deliveryId === eventId && one.status === 'succeeded')
    },
    () => `${eventId} was not delivered`,
  )
}

async function sharedOut(controllers: readonly CoveredRole[]): Promise<boolean> {
  const owned = await Promise.all(controllers.map(ownedBy))
  return owned.reduce((sum, one) => sum + one, 0) === SHARDS
}

async function ownedBy({ process }: CoveredRole): Promise<number> {
  return (await process.gauge('davit_shards_owned')) ?? 0
}

function inputSecret(name: string): object {
  return {
    metadata: { name },
    type: 'davit.dev/registry-secret',
    stringData: { secret: randomBytes(12).toString('hex') },
  }
}

function credential(name: string): object {
  return {
    apiVersion: 'davit.dev/v1alpha1',
    kind: 'RegistryCredential',
    metadata: { name },
    spec: {
      type: 'token',
      label: 'Figures',
      registry: 'registry.example.com',
      username: 'acme-bot',
      secretRef: { name },
    },
  }
}

function isStored(object: unknown): true | undefined {
  const { status } = object as { status?: { conditions?: { type: string; status: string }[] } }
  return status?.conditions?.some((one) => one.type === 'Stored' && one.status === 'True') || undefined
}
