import type { BoxCredentials } from '../../apis/box-credentials.ts'
import { parseRegistryHost } from '../../apis/registry-host.ts'
import { type BoxLogins, CloudError } from '../../credentials/cloud.ts'
import {
  chooseByHost,
  foreignParameter,
  type HelperResult,
  loginFailureText,
  type OwnedCredential,
  usernamesByHost,
} from './credential-choice.ts'
import { type BoxMaps, summarizeProblems } from './credential-maps.ts'

/** What docker, podman and their kin hand a credential helper: the host of a registry, in one of the forms that they keep. */

/** `host` is canonical; `path` is something behind a host, for which a helper, which knows hosts only, has nothing. */
export type ServerUrl =
  | { host: string; path?: never; problem?: never }
  | { path: string; host?: never; problem?: never }
  | { problem: string; host?: never; path?: never }

/** Far above the longest host. */
const MAX_SERVER_URL = 2048
const DOCKER_HUB = 'docker.io'
/** The key under which docker keeps Docker Hub; everything else is kept under its host. */
const DOCKER_HUB_KEY = 'https://index.docker.io/v1/'
/** The roots of the two versions of the registry's own interface. */
const ROOTS: ReadonlySet<string> = new Set(['', '/', '/v1', '/v1/', '/v2', '/v2/'])

/** @returns what is asked for, or what is wrong in words that follow "the registry" */
export function parseServerUrl(text: string): ServerUrl {
  if (text.length > MAX_SERVER_URL) return { problem: `has more than ${MAX_SERVER_URL} characters` }
  if (/^http:\/\//i.test(text)) {
    return { problem: 'is given with http://, over which a password would go in clear text; use https' }
  }
  const [, name = '', path = ''] = /^(?:https:\/\/)?([^/]*)(.*)$/is.exec(text) ?? []
  const { host, problem } = parseRegistryHost(name)
  if (host === undefined) return { problem }
  return ROOTS.has(path) ? { host } : { path: text }
}

/** The form in which docker looks for a host that a helper lists. */
export function toServerUrl(host: string): string {
  return host === DOCKER_HUB ? DOCKER_HUB_KEY : host
}

/**
 * The protocol of docker's credential helpers (docker/docker-credential-helpers, credentials/credentials.go): an action, a host
 * on stdin, an answer as JSON on stdout. A tool shows what a helper that failed has printed on stdout, and takes two sentences
 * of it for more than words.
 */

export type DockerHelperDependencies = {
  maps: BoxMaps
  logins: BoxLogins
  /** What the tool wrote. */
  input(): Promise<string>
  /** What names of parameters begin with. */
  parameterPrefix: string
}

/** docker and podman then go on without a credential. */
const NOT_FOUND = 'credentials not found in native keychain'
const NO_SERVER_URL = 'no credentials server URL'

/** Ends an action with these words. */
class HelperRefusal extends Error {
  override readonly name = 'HelperRefusal'
}

const ACTIONS: Readonly<Record<string, (world: DockerHelperDependencies) => Promise<string>>> = {
  get,
  list,
  store: async () =>
    refuse(
      'Nothing is stored here: make a RegistryCredential with kubectl or REST, and bake the template again.',
    ),
  erase: async () =>
    refuse('Nothing is stored here, so there is nothing to erase: delete the RegistryCredential.'),
}

export async function answerDocker(action: string, world: DockerHelperDependencies): Promise<HelperResult> {
  const act = Object.hasOwn(ACTIONS, action) ? ACTIONS[action] : undefined
  if (act === undefined) return dockerFailure(`Unknown credential action \`${action.slice(0, 40)}\``)
  try {
    return { exitCode: 0, stdout: `${await act(world)}\n`, stderr: '' }
  } catch (error) {
    if (error instanceof HelperRefusal) return dockerFailure(error.message)
    throw error
  }
}

async function get({ maps, logins, input, parameterPrefix }: DockerHelperDependencies): Promise<string> {
  const asked = (await input()).trim()
  if (asked === '') return refuse(NO_SERVER_URL)
  const { host, problem } = parseServerUrl(asked)
  if (problem !== undefined) return refuse(`The registry ${problem}.`)
  if (host === undefined) return refuse(NOT_FOUND)
  const owned = choose(await knownMaps(maps), host)
  const foreign = foreignParameter(owned, parameterPrefix)
  if (foreign !== undefined) return refuse(`${owned.credential.id} ${foreign}.`)
  const { username, password } = await login(logins, owned)
  return JSON.stringify({ ServerURL: asked, Username: username, Secret: password.reveal() })
}

async function list({ maps }: DockerHelperDependencies): Promise<string> {
  const hosts = usernamesByHost(await knownMaps(maps))
  return JSON.stringify(
    Object.fromEntries([...hosts].map(([host, username]) => [toServerUrl(host), username])),
  )
}

/** Whatever is wrong is said: an answer out of half of the maps could be the wrong one. */
async function knownMaps(maps: BoxMaps): Promise<readonly BoxCredentials[]> {
  const found = await maps.read()
  if (found.problems.length > 0) {
    return refuse(
      `The map of this box's credentials: ${summarizeProblems(found.problems)}. It lies beside the baked layout; DAVIT_CREDENTIALS says where.`,
    )
  }
  return found.maps
}

function choose(maps: readonly BoxCredentials[], host: string): OwnedCredential {
  const { of, several } = chooseByHost(maps, host)
  if (several !== undefined) {
    return refuse(
      `${host} has ${several.length} credentials here (${several.join(', ')}), and a credential helper is told the host alone, so it cannot know which one the image needs. Use one credential for this host in the template, or pull with kubelet, whose plugin is told the image.`,
    )
  }
  return of ?? refuse(NOT_FOUND)
}

async function login(logins: BoxLogins, { credential }: OwnedCredential) {
  try {
    return await logins.login(credential)
  } catch (error) {
    if (!(error instanceof CloudError)) throw error
    return refuse(loginFailureText({ credential, failure: error }))
  }
}

function refuse(words: string): never {
  throw new HelperRefusal(words)
}

/** On stdout for the tool, which looks for its two sentences there; on stderr for people and logs. */
export function dockerFailure(words: string): HelperResult {
  const isExpected = words === NOT_FOUND
  return {
    exitCode: 1,
    stdout: `${words}\n`,
    stderr: isExpected ? '' : `docker-credential-davit: ${words}\n`,
  }
}
