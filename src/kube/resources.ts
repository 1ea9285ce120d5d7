import type { ResourceType } from '../apis/meta.ts'
import type { Clock, Random } from '../lib/ports-clock.ts'
import {
  ApiError,
  type CreateOptions,
  type DeleteOptions,
  type DeletePrecondition,
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
import { patchError } from './error-of-patch.ts'
import { jsonParserFor } from './json-of.ts'
import { AdaptivePageSize } from './page-size.ts'
import { collectionPath, isName, objectPath } from './resource-path.ts'
import type { Transport } from './transport.ts'
import { watchEvents } from './watch-stream.ts'

export type ResourcesOptions = {
  transport: Transport
  clock: Clock
  random: Random
  /** A watch that brought no byte for so long is given up. */
  watchSilenceMs?: number
  maxLineBytes?: number
}

/** A schema in the CRD validates anyway; asking for unknown fields as well costs the API server 5 %. */
const WRITE_QUERY = 'fieldManager=davit&fieldValidation=Ignore'
const METADATA_ONLY = 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1'
const DEFAULT_PAGE = 500

export function createResources(options: ResourcesOptions): ResourceReader & ResourceWriter & WatchSource {
  return new Resources(options)
}

class Resources implements ResourceReader, ResourceWriter, WatchSource {
  readonly #transport: Transport
  readonly #clock: Clock
  readonly #random: Random
  readonly #silenceMs: number
  readonly #maxLineBytes: number
  readonly #pageSize = new AdaptivePageSize()

  constructor(options: ResourcesOptions) {
    this.#transport = options.transport
    this.#clock = options.clock
    this.#random = options.random
    this.#silenceMs = options.watchSilenceMs ?? 90_000
    this.#maxLineBytes = options.maxLineBytes ?? 4 * 1024 * 1024
  }

  async get(type: ResourceType, ref: ObjectRef): Promise<RawObject> {
    return parseObject(type, await this.#transport.call({ verb: 'get', path: objectPath(type, ref) }))
  }

  async list(type: ResourceType, query: ListQuery, from?: string): Promise<Page> {
    const limit = this.#pageSize.limit(type.plural, query.limit ?? DEFAULT_PAGE)
    const parameters = selectors(query)
    parameters.set('limit', String(limit))
    if (from !== undefined) parameters.set('continue', from)
    const path = `${collectionPath(type, query.namespace)}?${parameters}`
    const body = await this.#transport.call({ verb: 'list', path })
    const page = parsePage(type, body)
    this.#pageSize.learn(type.plural, { objects: page.items.length, bytes: body.length })
    return page
  }

  async create(type: ResourceType, object: RawObject, options?: CreateOptions): Promise<RawObject> {
    const { name, namespace } = object.metadata
    // A name in the body goes into no path, but what this adapter has made it can also read again.
    if (!isName(name)) throw new ApiError('Invalid', `metadata.name: ${JSON.stringify(name)} is not a name`)
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
    // Not all at once: 5 to 10 minutes.
    parameters.set('timeoutSeconds', String(300 + Math.floor(this.#random.fraction() * 300)))
    const path = `${collectionPath(type, query.namespace)}?${parameters}`
    return watchEvents(() => this.#transport.open({ verb: 'watch', path }, signal), {
      parse: jsonParserFor(type),
      clock: this.#clock,
      silenceMs: this.#silenceMs,
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
    throw new ApiError('Unavailable', 'the API server answered with something that is not JSON', {
      status: 200,
      cause: error,
    })
  }
}

function notUnderstood(wanted: string): ApiError {
  return new ApiError('Unavailable', `the API server answered with something that is not ${wanted}`, {
    status: 200,
  })
}
