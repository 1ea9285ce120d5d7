import { DNS_LABEL, DNS_SUBDOMAIN, type ResourceType } from '../apis/meta.ts'
import type { Clock, Random } from '../lib/time.ts'
import {
  ApiError,
  type CreateOptions,
  type DeleteOptions,
  type DeletePrecondition,
  isApiError,
  type ListQuery,
  type ObjectRef,
  type Page,
  type PatchOptions,
  type RawObject,
  type ResourceReader,
  type ResourceWriter,
  type WatchEvent,
  type WatchSource,
} from './client.ts'
import { type ConnectOptions, connectToCluster, type Transport } from './transport.ts'
import { jsonParserFor, watchEvents } from './watch-stream.ts'

/** Reads and writes resources of the Kubernetes API over one transport: paths, page sizes, patches and responses. */

/**
 * A patch without a version is merged again by the API server if another writer was faster; after five times it
 * fails with 409. That is not a conflict for the caller, who may send the same patch again.
 */
function patchError(error: unknown, patch: object): unknown {
  if (!isApiError(error, 'Conflict') || asksForVersion(patch)) return error
  return new ApiError('Unavailable', error.message, { status: error.status, cause: error })
}

function asksForVersion(patch: Partial<Pick<RawObject, 'metadata'>>): boolean {
  return patch.metadata?.resourceVersion !== undefined
}

/**
 * Page sizes by what the last page of the type weighed: parsing a page must not hold the event loop for more than
 * about 20 ms, and a page of large objects must stay below the limit of a response.
 */
export class AdaptivePageSize {
  readonly #averageBytes = new Map<string, number>()

  /** @param wanted objects per page as the caller prefers */
  limit(plural: string, wanted: number): number {
    const average = this.#averageBytes.get(plural) ?? UNKNOWN_BYTES
    return Math.max(1, Math.min(wanted, Math.floor(PAGE_BYTES / average)))
  }

  learn(plural: string, page: { objects: number; bytes: number }): void {
    if (page.objects === 0) return
    this.#averageBytes.set(plural, Math.max(1, page.bytes / page.objects))
  }
}

const PAGE_BYTES = 4 * 1024 * 1024
/** Before the first page: 64 objects per page. */
const UNKNOWN_BYTES = 64 * 1024

/**
 * Path segments are checked against the characters of names: `.` and `..` would reach a collection or another kind,
 * and DELETE would empty it.
 */

const MAX_SUBDOMAIN = 253
/** Checked types and their root path. */
const checkedTypes = new WeakMap<ResourceType, string>()

/** Path of a collection. @param namespace absent: all namespaces, or a cluster-scoped type */
export function collectionPath(type: ResourceType, namespace?: string): string {
  const root = rootOf(type)
  const { plural } = type
  if (namespace === undefined) return `${root}/${plural}`
  if (!type.namespaced) throw wrong(`${plural} are not namespaced`)
  if (!DNS_LABEL.test(namespace)) throw wrong(`${quote(namespace)} is not a valid namespace name`)
  return `${root}/namespaces/${namespace}/${plural}`
}

/** Path of one object. @throws ApiError NotFound for an impossible name */
export function objectPath(type: ResourceType, ref: ObjectRef): string {
  if (type.namespaced && ref.namespace === undefined) throw wrong(`${type.plural} require a namespace`)
  if (!isName(ref.name) || (ref.namespace !== undefined && !DNS_LABEL.test(ref.namespace))) {
    throw new ApiError('NotFound', `${quote(ref.name)} is not a valid name for ${type.plural}`)
  }
  return `${collectionPath(type, ref.namespace)}/${ref.name}`
}

function isName(name: string): boolean {
  return name.length <= MAX_SUBDOMAIN && DNS_SUBDOMAIN.test(name)
}

function rootOf(type: ResourceType): string {
  const known = checkedTypes.get(type)
  if (known !== undefined) return known
  const { group, version, plural } = type
  if ((group !== '' && !isName(group)) || !DNS_LABEL.test(version) || !DNS_LABEL.test(plural)) {
    throw wrong(`${quote(`${group}/${version}/${plural}`)} is not a resource type`)
  }
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`
  checkedTypes.set(type, root)
  return root
}

function wrong(message: string): ApiError {
  return new ApiError('BadRequest', message)
}

function quote(text: string): string {
  return JSON.stringify(text.slice(0, 100))
}

export type ResourcesOptions = {
  transport: Transport
  clock: Clock
  random: Random
  maxLineBytes?: number
}

/** The schema of the CRD validates anyway; rejecting unknown fields would cost the API server 5 %. */
const WRITE_QUERY = 'fieldManager=davit&fieldValidation=Ignore'
const METADATA_ONLY = 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1'
const DEFAULT_PAGE = 500
/** A watch that was silent for this long is ended. */
const WATCH_SILENCE_MS = 90_000

export function createResources(options: ResourcesOptions): ResourceReader & ResourceWriter & WatchSource {
  return new Resources(options)
}

class Resources implements ResourceReader, ResourceWriter, WatchSource {
  readonly #transport: Transport
  readonly #clock: Clock
  readonly #random: Random
  readonly #maxLineBytes: number
  readonly #pageSize = new AdaptivePageSize()

  constructor(options: ResourcesOptions) {
    this.#transport = options.transport
    this.#clock = options.clock
    this.#random = options.random
    this.#maxLineBytes = options.maxLineBytes ?? 4 * 1024 * 1024
  }

  async get(type: ResourceType, ref: ObjectRef): Promise<RawObject> {
    return parseObject(type, await this.#transport.call({ verb: 'get', path: objectPath(type, ref) }))
  }

  async list(type: ResourceType, query: ListQuery, from?: string): Promise<Page> {
    let limit = this.#pageSize.limit(type.plural, query.limit ?? DEFAULT_PAGE)
    for (;;) {
      try {
        return await this.#page(type, { ...query, limit }, from)
      } catch (error) {
        // The objects of this page are much larger than those before. The same page would fail each time it is retried.
        if (!isApiError(error, 'TooLarge') || limit <= 1) throw error
        limit = Math.ceil(limit / 4)
      }
    }
  }

  async #page(type: ResourceType, query: ListQuery & { limit: number }, from?: string): Promise<Page> {
    const parameters = selectors(query)
    parameters.set('limit', String(query.limit))
    if (from !== undefined) parameters.set('continue', from)
    const path = `${collectionPath(type, query.namespace)}?${parameters}`
    const body = await this.#transport.call({ verb: 'list', path })
    const page = parsePage(type, body)
    this.#pageSize.learn(type.plural, { objects: page.items.length, bytes: body.length })
    return page
  }

  async create(type: ResourceType, object: RawObject, options?: CreateOptions): Promise<RawObject> {
    const { name, namespace } = object.metadata
    // The name is not part of this path, but must be usable in others.
    if (!isName(name))
      throw new ApiError('Invalid', `metadata.name: ${JSON.stringify(name)} is not a valid name`)
    const path = `${collectionPath(type, namespace)}?${WRITE_QUERY}`
    const body = JSON.stringify(object)
    return parseObject(type, await this.#transport.call({ verb: 'create', path, body, ...answer(options) }))
  }

  async patch(type: ResourceType, ref: ObjectRef, patch: object, options?: PatchOptions): Promise<RawObject> {
    const subresource = options?.subresource === undefined ? '' : `/${options.subresource}`
    const query = options?.dryRun ? `${WRITE_QUERY}&dryRun=All` : WRITE_QUERY
    try {
      const body = await this.#transport.call({
        verb: 'patch',
        path: `${objectPath(type, ref)}${subresource}?${query}`,
        body: JSON.stringify(patch),
        contentType: 'application/merge-patch+json',
        ...answer(options),
      })
      return parseObject(type, body)
    } catch (error) {
      throw patchError(error, patch)
    }
  }

  async delete(
    type: ResourceType,
    ref: ObjectRef,
    precondition?: DeletePrecondition,
    options?: DeleteOptions,
  ): Promise<void> {
    const path = objectPath(type, ref)
    const body = JSON.stringify({
      kind: 'DeleteOptions',
      apiVersion: 'v1',
      ...(precondition ? { preconditions: precondition } : {}),
      ...(options?.dependents ? { propagationPolicy: options.dependents } : {}),
    })
    await this.#transport.call({ verb: 'delete', path, body, accept: METADATA_ONLY })
  }

  watch(
    type: ResourceType,
    query: ListQuery,
    resourceVersion: string,
    signal: AbortSignal,
  ): AsyncIterable<WatchEvent[]> {
    const parameters = selectors(query)
    parameters.set('watch', '1')
    parameters.set('allowWatchBookmarks', 'true')
    parameters.set('resourceVersion', resourceVersion)
    // Spread over 5 to 10 minutes.
    parameters.set('timeoutSeconds', String(300 + Math.floor(this.#random.fraction() * 300)))
    const path = `${collectionPath(type, query.namespace)}?${parameters}`
    return watchEvents(() => this.#transport.open({ verb: 'watch', path }, signal), {
      parse: jsonParserFor(type),
      clock: this.#clock,
      silenceMs: WATCH_SILENCE_MS,
      maxLineBytes: this.#maxLineBytes,
    })
  }
}

function selectors(query: ListQuery): URLSearchParams {
  const parameters = new URLSearchParams()
  if (query.labelSelector !== undefined) parameters.set('labelSelector', query.labelSelector)
  if (query.fieldSelector !== undefined) parameters.set('fieldSelector', query.fieldSelector)
  return parameters
}

function answer(options: { answer?: 'metadata' } | undefined): { accept?: string } {
  return options?.answer === 'metadata' ? { accept: METADATA_ONLY } : {}
}

function parsePage(type: ResourceType, body: Buffer): Page {
  const list = parse(type, body) as { items?: RawObject[]; metadata?: Record<string, unknown> } | null
  const { resourceVersion, continue: next } = list?.metadata ?? {}
  if (!Array.isArray(list?.items) || typeof resourceVersion !== 'string') throw notUnderstood('a list')
  const more = typeof next === 'string' && next !== ''
  return { items: list.items, resourceVersion, ...(more ? { continue: next } : {}) }
}

function parseObject(type: ResourceType, body: Buffer): RawObject {
  const object = parse(type, body) as Partial<RawObject> | null
  if (typeof object?.metadata !== 'object' || object.metadata === null) throw notUnderstood('an object')
  return object as RawObject
}

function parse(type: ResourceType, body: Buffer): unknown {
  try {
    return jsonParserFor(type)(body.toString('utf8'))
  } catch (error) {
    throw new ApiError('Unavailable', 'the API server returned invalid JSON', {
      status: 200,
      cause: error,
    })
  }
}

function notUnderstood(wanted: string): ApiError {
  return new ApiError('Unavailable', `the API server returned a response that is not ${wanted}`, {
    status: 200,
  })
}

export type KubernetesClient = ResourceReader & ResourceWriter & WatchSource & { close(): Promise<void> }

/** Connects lazily. @throws Error if there is no access to a cluster */
export async function connectKubernetes(options: ConnectOptions): Promise<KubernetesClient> {
  const transport = await connectToCluster(options)
  const resources = createResources({ transport, clock: options.clock, random: options.random })
  return {
    get: (type, ref) => resources.get(type, ref),
    list: (type, query, from) => resources.list(type, query, from),
    create: (type, object, how) => resources.create(type, object, how),
    patch: (type, ref, patch, how) => resources.patch(type, ref, patch, how),
    delete: (type, ref, precondition, how) => resources.delete(type, ref, precondition, how),
    watch: (type, query, version, signal) => resources.watch(type, query, version, signal),
    close: () => transport.close(),
  }
}
