/**
 * The REST server as installed, with a proxy before its API server for faults: see api-front.ts.
 *
 *   const bed = await startFrontedServer()
 *   bed.front.answer(({ path }) => path.endsWith('/tokenreviews'), 'hang')
 *   expect((await bed.list()).status).toBe(503)
 */
import { startApiFront } from './api-front.ts'
import { SERVER_ACCOUNT, startInstallation } from './installation.ts'
import { ask } from './server-bed.ts'
import { untilLetIn } from './server-tour.ts'

export const ORGANIZATION = 'acme'
export const HOOKS = `/organizations/${ORGANIZATION}/webhooks`
export const EVENTS = `/organizations/${ORGANIZATION}/events`
export const OWNER = { namespace: ORGANIZATION, name: 'owner' }

export type FrontedServer = Awaited<ReturnType<typeof startFrontedServer>>

type Settings = Readonly<Record<string, string>>

export async function startFrontedServer(settings: Settings = {}) {
  const davit = await startInstallation()
  await davit.makeOrganization(ORGANIZATION)
  await davit.makeAccount(OWNER.namespace, OWNER.name, 'davit-owner')
  const key = await davit.makeKey(OWNER)
  const startAnother = async (settings: Settings = {}) => {
    const server = await davit.startServer({ settings })
    await server.process.untilReady()
    await untilLetIn({ server, organization: ORGANIZATION, owner: key })
    return server
  }
  const startBehindFront = async (settings: Settings = {}) => {
    const front = await startApiFront(davit.controlPlane.access)
    const KUBECONFIG = await front.kubeconfigFor(await davit.makeToken(SERVER_ACCOUNT))
    return { front, server: await startAnother({ KUBECONFIG, ...settings }) }
  }
  const { front, server } = await startBehindFront(settings)
  return {
    davit,
    front,
    server,
    /** The API token of the owner. */
    key,
    /** Starts another REST server without a proxy, and waits until it accepts the owner. */
    startAnother,
    /** Starts another REST server with its own proxy; the caller stops it. */
    startBehindFront,
    /** The answer to the owner's list of endpoints. */
    list: (of = key) => ask(server, HOOKS, { key: of }),
    post: (path: string, body: unknown, headers: Record<string, string> = {}) =>
      ask(server, path, { method: 'POST', key, headers, body: JSON.stringify(body) }),
    stop: async () => {
      await davit.stop()
      await front.stop()
    },
  }
}
