/** Davit as installed, with all of its output kept, and an AWS emulator; with all settings that make it verbose. */
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { connectOrganization } from '../support/aws/connect-organization.ts'
import { REGION, TestAws } from '../support/aws/organization-account.ts'
import { type Installation, startInstallation } from '../support/installation.ts'
import { MortalRoles } from './crashes.ts'
import { RestOwner } from './rest-owner.ts'

export type Scene = {
  davit: Installation
  aws: TestAws
  roles: MortalRoles
  rest: RestOwner
  organizations: readonly string[]
  /** What REST has answered. */
  answers: string[]
  paths: { data: string; audit: string; servers: string; controllerLog: string; home: string }
  /** What is stored at AWS under the name of a credential. */
  valueOf(organization: string, credential: string): string | undefined
  stop(): Promise<void>
}

/** Debug output of Node and libraries. */
const TALKATIVE = {
  NODE_DEBUG: 'http,https,http2,net,tls,undici,fetch,websocket,timer',
  NODE_OPTIONS: '--trace-warnings --trace-uncaught',
  DEBUG: '*',
  DAVIT_LOG_LEVEL: 'info',
}
const SETTINGS = {
  DAVIT_CLOUD_WRITES_PER_SECOND: '1000',
  DAVIT_SHUTDOWN_TIMEOUT: '2s',
  DAVIT_ACCOUNT_CHECK_INTERVAL: '1m',
  DAVIT_DRIFT_CHECK_INTERVAL: '1m',
}
const ACCOUNT = '222222222222'
const LET_IN_LIMIT_MS = 20_000
const POLL_MS = 200

export async function setScene(organizations: number): Promise<Scene> {
  await using stack = new AsyncDisposableStack()
  const folder = await mkdtemp(join(tmpdir(), 'davit-canary-'))
  stack.defer(() => rm(folder, { recursive: true, force: true }))
  const paths = {
    data: join(folder, 'data'),
    audit: join(folder, 'audit', 'audit.log'),
    servers: join(folder, 'servers.log'),
    controllerLog: join(folder, 'controller.log'),
    home: join(folder, 'home'),
  }
  await mkdir(paths.home)
  await mkdir(dirname(paths.audit))
  const aws = await TestAws.start()
  stack.defer(() => aws.stop())
  const davit = await startInstallation({
    dataDir: paths.data,
    logPath: paths.servers,
    audit: { logPath: paths.audit, level: 'RequestResponse' },
    logFolder: folder,
  })
  stack.defer(() => davit.stop())
  const environment = { ...SETTINGS, ...TALKATIVE, HOME: paths.home, TMPDIR: paths.home }
  const roles = await MortalRoles.start(davit, { ...environment, ...aws.environment() })
  const names = Array.from({ length: organizations }, (_, i) => `canary-${i}`)
  const account = aws.emulator.accounts.add(ACCOUNT)
  const keys = new Map<string, string>()
  for (const organization of names) {
    await davit.makeOrganization(organization)
    keys.set(organization, await davit.makeKey(await davit.makeAccount(organization, 'owner', 'davit-owner')))
    const role = `davit-${organization}`
    await connectOrganization({ api: davit.api, organization, region: REGION, account, role })
  }
  const answers: string[] = []
  const baseUrl = `http://127.0.0.1:${roles.port}`
  await untilLetIn(baseUrl, keys)
  const rest = new RestOwner({ baseUrl, keys, heard: (answer) => void answers.push(answer) })
  const parts = stack.move()
  return {
    davit,
    aws,
    roles,
    rest,
    organizations: names,
    answers,
    paths,
    valueOf: (organization, credential) =>
      account.parameters(REGION).value(`/davit/${organization}/rc_${credential}`),
    stop: () => parts.disposeAsync(),
  }
}

/** The API server takes a moment to know a new role. */
async function untilLetIn(baseUrl: string, keys: ReadonlyMap<string, string>): Promise<void> {
  const limit = performance.now() + LET_IN_LIMIT_MS
  for (const [organization, key] of keys) {
    for (;;) {
      const url = `${baseUrl}/organizations/${organization}/registry-credentials`
      const { status } = await fetch(url, { headers: { authorization: key } })
      if (status === 200) break
      if (performance.now() > limit) throw new Error(`${organization} is not let in: ${status}`)
      await sleep(POLL_MS)
    }
  }
}
