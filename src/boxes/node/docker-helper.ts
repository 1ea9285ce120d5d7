/**
 * A Docker credential helper (docker/docker-credential-helpers, credentials/credentials.go): an action as argument, a host on stdin, JSON
 * on stdout. On failure Docker shows what was printed on stdout, and gives two of its messages a meaning.
 *
 * Nothing is stored here, but tools also call a helper to store and to erase. An action succeeds if it asks for what is the case anyway:
 * podman and skopeo abort a logout, and docker a login, if it fails.
 */
import { z } from 'zod'
import type { BoxCredentials } from '../../apis/box-credentials.ts'
import { DOCKER_HUB, parseRegistryHost } from '../../apis/registry-host.ts'
import type { BoxLogins } from '../../credentials/cloud.ts'
import { tryParseJson } from '../../lib/json.ts'
import {
  chooseByHost,
  fetchLogin,
  foreignParameter,
  HelperRefusal,
  type HelperResult,
  type OwnedCredential,
  refuse,
  usernamesByHost,
} from './credential-choice.ts'
import { type BoxMaps, summarizeProblems } from './credential-maps.ts'

/** `host` is canonical. `path` is a URL with a path, for which there is never a credential: helpers only know hosts. */
type ServerUrl =
  | { host: string; path?: never; problem?: never }
  | { path: string; host?: never; problem?: never }
  | { problem: string; host?: never; path?: never }

const MAX_SERVER_URL = 2048
/** Docker's name for Docker Hub. Every other registry goes by its host. */
const DOCKER_HUB_KEY = 'https://index.docker.io/v1/'
const ROOTS: ReadonlySet<string> = new Set(['', '/', '/v1', '/v1/', '/v2', '/v2/'])

/** @returns the problem as text that follows "the registry" */
export function parseServerUrl(text: string): ServerUrl {
  if (text.length > MAX_SERVER_URL) return { problem: `must be at most ${MAX_SERVER_URL} characters` }
  if (/^http:\/\//i.test(text)) {
    return { problem: 'must not use http://, which sends passwords in clear text; use https' }
  }
  const [, name = '', path = ''] = /^(?:https:\/\/)?([^/]*)(.*)$/is.exec(text) ?? []
  const { host, problem } = parseRegistryHost(name)
  if (host === undefined) return { problem }
  return ROOTS.has(path) ? { host } : { path: text }
}

export function toServerUrl(host: string): string {
  return host === DOCKER_HUB ? DOCKER_HUB_KEY : host
}

type DockerHelperDependencies = {
  maps: BoxMaps
  logins: BoxLogins
  input(): Promise<string>
  parameterPrefix: string
}

/** Docker and Podman then continue without a credential. */
const NOT_FOUND = 'credentials not found in native keychain'
const NO_SERVER_URL = 'no credentials server URL'

/** The action of a logout. It needs no input and no settings. */
export const ERASE = 'erase'
const NOTHING = ''

/** Each returns what it prints. */
const ACTIONS: Readonly<Record<string, (dependencies: DockerHelperDependencies) => Promise<string>>> = {
  get,
  list,
  store,
  [ERASE]: async () => NOTHING,
}

export async function answerDocker(
  action: string,
  dependencies: DockerHelperDependencies,
): Promise<HelperResult> {
  const act = Object.hasOwn(ACTIONS, action) ? ACTIONS[action] : undefined
  if (act === undefined) return dockerFailure(`Unknown credential action \`${action.slice(0, 40)}\``)
  try {
    const answer = await act(dependencies)
    return { exitCode: 0, stdout: answer === NOTHING ? NOTHING : `${answer}\n`, stderr: '' }
  } catch (error) {
    if (error instanceof HelperRefusal) return dockerFailure(error.message)
    throw error
  }
}

async function get(dependencies: DockerHelperDependencies): Promise<string> {
  const asked = (await dependencies.input()).trim()
  const { login } = await loginFor(asked, dependencies)
  return JSON.stringify({ ServerURL: asked, Username: login.username, Secret: login.password.reveal() })
}

/** @throws HelperRefusal */
async function loginFor(asked: string, { maps, logins, parameterPrefix }: DockerHelperDependencies) {
  if (asked === '') return refuse(NO_SERVER_URL)
  const { host, problem } = parseServerUrl(asked)
  if (problem !== undefined) return refuse(`The registry ${problem}.`)
  if (host === undefined) return refuse(NOT_FOUND)
  const owned = choose(await readMaps(maps), host)
  const foreign = foreignParameter(owned, parameterPrefix)
  if (foreign !== undefined) return refuse(`${owned.credential.id} ${foreign}.`)
  return { credential: owned.credential, login: await fetchLogin(logins, owned) }
}

const loginToStore = z.object({ ServerURL: z.string(), Username: z.string(), Secret: z.string() })

/** After a login, docker stores what it was told, even if it was this helper that told it. */
async function store(dependencies: DockerHelperDependencies): Promise<string> {
  const { data } = loginToStore.safeParse(tryParseJson(await dependencies.input()))
  if (data !== undefined && (await isServed(data, dependencies))) return NOTHING
  return refuse(
    'This helper does not store credentials. Create a RegistryCredential with kubectl or the REST API, then bake the template again.',
  )
}

/** Whether `get` answers with this login. ECR has a new token for each request, and all of them are for the same pulls. */
async function isServed(
  { ServerURL, Username, Secret }: z.infer<typeof loginToStore>,
  dependencies: DockerHelperDependencies,
): Promise<boolean> {
  try {
    const { credential, login } = await loginFor(ServerURL.trim(), dependencies)
    return Username === login.username && (credential.type === 'ecr' || Secret === login.password.reveal())
  } catch (error) {
    if (error instanceof HelperRefusal) return false
    throw error
  }
}

async function list({ maps }: DockerHelperDependencies): Promise<string> {
  const hosts = usernamesByHost(await readMaps(maps))
  return JSON.stringify(
    Object.fromEntries([...hosts].map(([host, username]) => [toServerUrl(host), username])),
  )
}

/** Fails on any problem: with half of the files missing the answer could be wrong. */
async function readMaps(maps: BoxMaps): Promise<readonly BoxCredentials[]> {
  const found = await maps.read()
  if (found.problems.length > 0) {
    return refuse(
      `The credentials file of this box cannot be used: ${summarizeProblems(found.problems)}. The file is next to the baked layout; DAVIT_CREDENTIALS sets its path.`,
    )
  }
  return found.maps
}

function choose(maps: readonly BoxCredentials[], host: string): OwnedCredential {
  const { of, several } = chooseByHost(maps, host)
  if (several !== undefined) {
    return refuse(
      `${host} has ${several.length} credentials here (${several.join(', ')}), but a credential helper receives only the host, so it cannot determine which one the image needs. Use one credential for this host in the template, or pull with kubelet, whose plugin receives the image.`,
    )
  }
  return of ?? refuse(NOT_FOUND)
}

export function dockerFailure(message: string): HelperResult {
  const stderr = message === NOT_FOUND ? '' : `docker-credential-davit: ${message}\n`
  return { exitCode: 1, stdout: `${message}\n`, stderr }
}
