/** What docker, podman and their kin hand a credential helper: the host of a registry, in one of the forms that they keep. */
import { parseRegistryHost } from '../../apis/registry-host.ts'

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
