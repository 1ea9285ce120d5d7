/** The credentials of the playground: one of each type and those of its bakes through REST, and one with kubectl. */
import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { ResourceReader, ResourceWriter } from '../src/kube/client.ts'
import type { Account } from '../test-support/aws/account.ts'
import { ACCOUNT, createCredential, type PlaygroundCloud, REGION } from './cloud.ts'
import { ORGANIZATION } from './organization.ts'

const BY_KUBECTL = 'ghcr'
const STORED_LIMIT_MS = 30_000
const LOOK_EVERY_MS = 100

export type RegistryLogin = { label: string; registry: string; username: string; secret: string }

export type SavedCredentials = {
  account: Account
  /** Of the logins, in the same order. */
  ids: readonly string[]
  /** Describe what the account holds now. */
  lines: string[]
}

export type CredentialsOptions = {
  api: ResourceReader & ResourceWriter
  cloud: PlaygroundCloud
  restServer: { baseUrl: string; keyFile: string }
  /** Saved in addition to the others. */
  logins: readonly RegistryLogin[]
}

/** @throws Error if one cannot be saved */
export async function saveCredentials(options: CredentialsOptions): Promise<SavedCredentials> {
  const { api, cloud, restServer, logins } = options
  const account = await cloud.connect(api)
  const token = {
    type: 'token',
    label: 'Docker Hub',
    registry: 'docker.io',
    username: 'acme',
    secret: madeUp(),
  }
  const ecr = { type: 'ecr', label: 'Our ECR', registry: `${ACCOUNT}.dkr.ecr.${REGION}.amazonaws.com` }
  const hub = await post(restServer, token)
  const own = await post(restServer, ecr)
  const ids: string[] = []
  for (const login of logins) ids.push(await post(restServer, { type: 'token', ...login }))
  await createCredential(api, BY_KUBECTL, madeUp())
  await untilStored(account, `rc_${BY_KUBECTL}`)
  const lines = [
    `The AWS account ${ACCOUNT} of ${ORGANIZATION} (emulated) is connected: Davit can write, but not read.`,
    'Credentials with a secret in this account (except for ecr, which needs none):',
    '',
    `    ${hub}  token, over REST`,
    `    ${own}  ecr, over REST`,
    ...logins.map(({ label }, index) => `    ${ids[index]}  token, over REST: ${label}`),
    `    rc_${BY_KUBECTL}                        token, with kubectl`,
    '',
    'Parameters in this account:',
    '',
    ...held(account),
    '',
  ]
  return { account, ids, lines }
}

/** Makes a random secret that no registry accepts. */
export function madeUp(): string {
  return `playground-${randomBytes(12).toString('hex')}`
}

async function post(
  { baseUrl, keyFile }: { baseUrl: string; keyFile: string },
  body: object,
): Promise<string> {
  const answer = await fetch(`${baseUrl}/organizations/${ORGANIZATION}/registry-credentials`, {
    method: 'POST',
    headers: { authorization: await readFile(keyFile, 'utf8'), 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  const text = await answer.text()
  if (answer.status !== 201) throw new Error(`failed to create a credential: ${answer.status} ${text}`)
  return (JSON.parse(text) as { id: string }).id
}

async function untilStored(account: Account, id: string): Promise<void> {
  const deadline = performance.now() + STORED_LIMIT_MS
  while (!parametersOf(account).some(({ name }) => name.endsWith(`/${id}`))) {
    if (performance.now() > deadline) throw new Error(`${id} was not stored`)
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS))
  }
}

function parametersOf(account: Account) {
  return account.parameters(REGION).list()
}

/** Names and versions, never values. */
function held(account: Account): string[] {
  return parametersOf(account).map(
    ({ name, versions }) => `    ${name}  version ${versions.at(-1)?.version ?? 0}`,
  )
}
