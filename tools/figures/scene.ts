/** An installation of Davit on its own API server: a controller, a REST server, and an organization with an account. */
import { join } from 'node:path'
import { connectOrganization } from '../../test/support/aws/connect-organization.ts'
import { REGION, TestAws } from '../../test/support/aws/organization-account.ts'
import { type Installation, startInstallation } from '../../test/support/installation.ts'
import { startReceiver } from '../../test/support/receiver.ts'
import { until } from '../../test/support/until.ts'
import { CoveredRole, coveredAt } from './covered-role.ts'

export const ORGANIZATION = 'acme'
/** The name of the permanent controller. */
const FIRST_REPLICA = 'first'
const ACCOUNT = '222222222222'

export type Scene = {
  /** Its API server accepts any request of the administrator. */
  davit: Installation
  controller: CoveredRole
  server: CoveredRole
  receiverUrl: string
  /**
   * Sends a request as the organization's owner. @param path below that of the organization @throws Error for another status than
   * `want`
   */
  rest(call: RestCall): Promise<RestAnswer>
  /** Starts another controller and waits until it is ready. @param replica its name */
  startController(replica: string): Promise<CoveredRole>
  stop(): Promise<void>
}

export type RestCall = { want: number; method: 'GET' | 'POST'; path: string; body?: object }
type RestAnswer = { location: string | null; json: unknown }

export async function setScene(): Promise<Scene> {
  await using stack = new AsyncDisposableStack()
  const receiver = await startReceiver()
  stack.defer(() => receiver.close())
  const aws = await TestAws.start()
  stack.defer(() => aws.stop())
  const davit = await startInstallation()
  stack.defer(() => davit.stop())
  await davit.makeOrganization(ORGANIZATION)
  let started = 0
  const covered = () => {
    started += 1
    const socket = join(davit.folder, `coverage-${started}.sock`)
    return { socket, settings: { ...aws.environment(), ...coveredAt(socket) } }
  }
  const startController = async (replica: string) => {
    const { socket, settings } = covered()
    const process = await davit.startController({ ...settings, DAVIT_REPLICA: replica })
    await process.untilReady()
    return new CoveredRole(process, socket)
  }
  const controller = await startController(FIRST_REPLICA)
  const { socket, settings } = covered()
  const { process, baseUrl } = await davit.startServer({ settings })
  await process.untilReady()
  const key = await davit.makeKey(await davit.makeAccount(ORGANIZATION, 'owner', 'davit-owner'))
  const rest = restOf(baseUrl, key)
  await untilLetIn(rest)
  const account = aws.emulator.accounts.add(ACCOUNT)
  const place = { organization: ORGANIZATION, region: REGION, account, role: 'davit-secrets' }
  await connectOrganization({ api: davit.api, ...place })
  const parts = stack.move()
  const server = new CoveredRole(process, socket)
  const stop = () => parts.disposeAsync()
  return { davit, controller, server, receiverUrl: receiver.url, rest, startController, stop }
}

function restOf(baseUrl: string, key: string): Scene['rest'] {
  return async ({ want, method, path, body }) => {
    const response = await fetch(`${baseUrl}/organizations/${ORGANIZATION}${path}`, {
      method,
      headers: { authorization: key, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    if (response.status !== want) throw new Error(`${method} ${path}: ${response.status} ${text}`)
    return { location: response.headers.get('location'), json: JSON.parse(text) }
  }
}

/** The API server needs a moment to apply a new role. */
async function untilLetIn(rest: Scene['rest']): Promise<void> {
  let last: unknown
  await until(
    async () => {
      try {
        return await rest({ want: 200, method: 'GET', path: '/webhooks' })
      } catch (error) {
        last = error
        return undefined
      }
    },
    () => `the owner is not let in: ${last}`,
  )
}
