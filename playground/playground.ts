/** Sets up the playground, runs it, and takes it down in order. */

import type { KubernetesClient } from '../src/kube/resources.ts'
import type { Bakes, BakesOutcome } from './bakes/bakes.ts'
import type { PlaygroundOptions } from './options.mjs'
import { publish, readSecret } from './organization.ts'
import { createScreen, type Screen } from './screen.ts'
import type { ReadSecret } from './secret-book.ts'
import { Stopped, setStage } from './stage.ts'
import { Summary } from './summary.ts'
import { welcome } from './welcome.ts'

const PUBLISH_EVERY_MS = 1000
const ONCE_DELIVERIES = 10
const ONCE_LIMIT_MS = 120_000

export type Surroundings = {
  /** Aborted when the playground is to end. */
  stopping: AbortSignal
  write: (line: string) => void
  /** Whether the output may have colors. */
  colored: boolean
  /** How the receiver finds its secrets. Absent: like a customer's receiver, in the Secrets that Davit fills. */
  readSecret?: ReadSecret
}

const STILL_BAKING: BakesOutcome = { good: true, summary: 'The bakes were still in progress.' }

type Ending = 'stopped' | 'crashed' | 'done' | 'refused' | 'late'

/** @returns the exit code @throws UsageError, ControlPlaneUnavailable as `setStage` */
export async function runPlayground(options: PlaygroundOptions, surroundings: Surroundings): Promise<number> {
  const { stopping, write, colored } = surroundings
  const screen = createScreen(write, colored)
  const summary = new Summary()
  let over = false
  screen.note('Starting a local Kubernetes API server ...')
  await using stack = new AsyncDisposableStack()
  try {
    const stage = await setStage(
      {
        ...options,
        stopping,
        readSecret: surroundings.readSecret ?? readSecret,
        note: (line) => screen.note(line),
        showBakes: (lines) => {
          if (over) return
          for (const line of ['', ...lines]) screen.note(line)
          screen.heading()
        },
        onReceived: (received) => {
          // The summary does not count what arrives during the shutdown.
          if (over) return
          summary.add(received)
          screen.show(received)
        },
      },
      stack,
    )
    const { kubeconfigPath: kubeconfig, binaries } = stage.controlPlane
    const searchPath = process.env.PATH ?? ''
    const tools = { kubeconfig, kubectl: binaries.kubectl, searchPath }
    for (const line of welcome({
      ...options,
      ...tools,
      ...stage.restServer,
      receiver: stage.receiver,
      held: stage.held,
      controllers: stage.controllers.map(({ replica, process }) => ({ replica, pid: process.pid })),
    }))
      screen.note(line)
    screen.heading()
    const ending = await runScene(options, { ...stage, summary, stopping, screen })
    over = true
    const [{ log }] = stage.controllers
    const why = ending === 'crashed' ? [await stage.crashed] : explain(ending, log)
    const bakes = await Promise.race([stage.bakes.outcome, STILL_BAKING])
    for (const line of ['', ...summary.lines(), bakes.summary, ...why]) screen.note(line)
    return isGood(options, ending, summary) && (bakes.good || !options.once) ? 0 : 1
  } catch (error) {
    if (!(error instanceof Stopped)) throw error
    screen.note('Stopped before the playground was running.')
    return options.once ? 1 : 0
  }
}

type Scene = {
  api: KubernetesClient
  crashed: Promise<string>
  bakes: Bakes
  summary: Summary
  stopping: AbortSignal
  screen: Screen
}

/** Publishes until it is stopped or, with `once`, until ten deliveries have succeeded and the bakes have ended. */
async function runScene(options: PlaygroundOptions, scene: Scene): Promise<Ending> {
  const { summary, screen } = scene
  let number = 0
  const publisher = setInterval(() => {
    number += 1
    publish(scene.api, number).catch((error: Error) =>
      screen.note(`Failed to publish an event: ${error.message}`),
    )
  }, PUBLISH_EVERY_MS)
  try {
    return await Promise.race<Ending>([
      stopped(scene.stopping),
      scene.crashed.then(() => 'crashed'),
      ...(options.once
        ? [
            Promise.all([summary.delivered(ONCE_DELIVERIES), scene.bakes.outcome]).then((): Ending => 'done'),
            summary.refused().then((): Ending => 'refused'),
            timeLimit(),
          ]
        : []),
    ])
  } finally {
    clearInterval(publisher)
  }
}

function stopped(stopping: AbortSignal): Promise<Ending> {
  return new Promise((resolve) => {
    stopping.addEventListener('abort', () => resolve('stopped'), { once: true })
    if (stopping.aborted) resolve('stopped')
  })
}

function timeLimit(): Promise<Ending> {
  return new Promise((resolve) => setTimeout(() => resolve('late'), ONCE_LIMIT_MS).unref())
}

/** @param log of the process that may have failed */
function explain(ending: Ending, log: string): string[] {
  if (ending === 'refused') return ['A signature failed verification. This is a bug in Davit.']
  if (ending === 'late')
    return [`The run did not finish within ${ONCE_LIMIT_MS / 1000} s. See ${log} and the logs next to it.`]
  return []
}

function isGood({ once }: PlaygroundOptions, ending: Ending, summary: Summary): boolean {
  const ended = ending === 'done' || (ending === 'stopped' && !once)
  return ended && summary.unverified === 0
}
