/**
 * Image references in the grammar of Docker and Kubernetes: `[host[:port]/]path[:tag][@digest]`. The default host is Docker Hub, where
 * a path without a slash is below `library/`.
 */
import { DOCKER_HUB, parseRegistryHost } from '../apis/registry-host.ts'

/** `registry` is canonical. Without tag and digest the tag is `latest`; next to a digest a tag has no effect. */
export type ImageReference = {
  registry: string
  repository: string
  tag?: string | undefined
  digest?: string | undefined
}

type ParsedImage = { reference: ImageReference; problem?: never } | { reference?: never; problem: string }

const MAX_REPOSITORY = 255
const PATH_PART = /^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*$/
const TAG = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/
const DIGEST = /^sha256:[0-9a-f]{64}$/

export function parseImageReference(text: string): ParsedImage {
  const shape = shapeProblem(text)
  if (shape !== undefined) return { problem: shape }
  const [name, digest] = cut(text, text.lastIndexOf('@'))
  if (digest !== undefined && !DIGEST.test(digest))
    return { problem: 'must have a digest of the form sha256:<64 lowercase hexadecimal digits> after the @' }
  const [first, rest] = cut(name, name.indexOf('/'))
  if (rest === undefined || !isHost(first)) return within(DOCKER_HUB, { name, digest })
  const { host, problem } = parseRegistryHost(first)
  if (host === undefined) return { problem: `contains the host ${first}, but a host ${problem}` }
  return within(host, { name: rest, digest })
}

/** The name to pull: with the digest if there is one, otherwise with the tag, since skopeo rejects both together. */
export function imageName({ registry, repository, tag, digest }: ImageReference): string {
  return `${registry}/${repository}${digest === undefined ? `:${tag}` : `@${digest}`}`
}

function shapeProblem(text: string): string | undefined {
  if (text === '') return 'must not be empty; use a reference such as ghcr.io/acme/api:1.4'
  if (/[\p{Cc}\p{Z}]/u.test(text)) return 'must not contain whitespace or control characters'
  if (text.includes('://')) return 'must not have a scheme such as https:// or docker://'
  if (/^[0-9a-f]{64}$/.test(text))
    return 'must be an image name, not just an image ID (64 hexadecimal digits)'
  if (text.startsWith('[') && !text.includes('/')) return 'must have a repository after the host'
  return undefined
}

function cut(text: string, at: number): [before: string, after: string | undefined] {
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)]
}

/** Docker also takes `Acme` for a host, since no repository may have capitals. Davit reports that as a mistake. */
function isHost(first: string): boolean {
  return first === 'localhost' || /[.:[]/.test(first)
}

function within(
  registry: string,
  { name, digest }: { name: string; digest: string | undefined },
): ParsedImage {
  const [path, tag] = cut(name, name.indexOf(':'))
  if (tag !== undefined && !TAG.test(tag)) return { problem: tagProblem(tag) }
  const problem = pathProblem(path)
  if (problem !== undefined) return { problem }
  const repository = registry === DOCKER_HUB && !path.includes('/') ? `library/${path}` : path
  if (repository.length > MAX_REPOSITORY)
    return { problem: `must have a repository name of at most ${MAX_REPOSITORY} characters` }
  const effectiveTag = tag ?? (digest === undefined ? 'latest' : undefined)
  return { reference: { registry, repository, tag: effectiveTag, digest } }
}

function tagProblem(tag: string): string {
  if (tag === '') return 'must have a tag after the colon'
  if (/[/:]/.test(tag))
    return 'must have at most one tag, at the end; only a host before the first slash may have a port'
  return 'must have a valid tag after the colon: 1 to 128 letters, digits, dots, dashes and underscores, not beginning with a dot or a dash'
}

function pathProblem(path: string): string | undefined {
  if (path === '') return 'must have a repository'
  const wrong = path.split('/').find((part) => !PATH_PART.test(part))
  if (wrong === undefined) return undefined
  if (wrong === '') return 'must have a repository name without leading, trailing or consecutive slashes'
  if (/[A-Z]/.test(wrong))
    return `must have a lowercase repository name, but ${wrong} contains uppercase letters. Only a tag, or a host with a dot or a port, may contain them`
  return `must have a valid repository name, but ${wrong} is not valid: use groups of lowercase letters and digits, joined by a dot, dashes, or one or two underscores`
}
