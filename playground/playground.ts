/** Sets up the playground, runs it, and takes it down in order. */

import type { KubernetesClient } from '../src/kube/resources.ts'
import type { Bakes, BakesOutcome } from './bakes/bakes.ts'
import { Instructions, shortPath } from './instructions.ts'
import type { readKeys } from './keys.ts'
import type { PlaygroundOptions } from './options.mjs'
import { publish, readSecret } from './organization.ts'
import type { ReadSecret } from './secret-book.ts'
import { type Stage, Stopped, setStage } from './stage.ts'
import { Summary } from './summary.ts'
import { View, type ViewOptions } from './view.ts'
import { reminder, welcome } from './welcome.ts'

const PUBLISH_EVERY_MS = 1000
const REPORT_EVERY_MS = 30_000
const ONCE_DELIVERIES = 10
const ONCE_LIMIT_MS = 120_000

export type Surroundings = ViewOptions & {
  /** Aborted when the playground is to end. */
  stopping: AbortSignal
  /** Reads keys until the returned function is called. Absent: there is no terminal to read them from. */
  readKeys?: ((onKey: Parameters<typeof readKeys>[1]) => () => void) | undefined
  /** Ends the playground at the user's request. */
  stop: () => void
  /** How the receiver finds its secrets. Absent: like a customer's receiver, in the Secrets that Davit fills. */
  readSecret?: ReadSecret
}

const STILL_BAKING: BakesOutcome = { good: true, summary: 'The bakes were still in progress.' }

type Ending = 'stopped' | 'crashed' | 'done' | 'refused' | 'late'

/** @returns the exit code @throws UsageError, ControlPlaneUnavailable as `setStage` */
export async function runPlayground(options: PlaygroundOptions, surroundings: Surroundings): Promise<number> {
  const { stopping } = surroundings
  using view = new View(surroundings)
  const summary = new Summary()
  const instructions = new Instructions(options.state)
  let over = false
  view.note('Starting a local Kubernetes API server and Davit, usually within 15 seconds ...')
  await using stack = new AsyncDisposableStack()
  stack.defer(() => instructions.remove())
  try {
    const stage = await setStage(
      {
        ...options,
        stopping,
        readSecret: surroundings.readSecret ?? readSecret,
        note: (line) => view.note(line),
        showBakes: (lines, commands = []) => {
          if (over) return
          if (commands.length > 0) instructions.setBakes(commands)
          view.note('', ...lines, ...commands)
          view.list()
        },
        onReceived: (received) => {
          // The summary does not count what arrives during the shutdown.
          if (over) return
          summary.add(received)
          view.show(received)
        },
      },
      stack,
    )
    greet({ options, stage, view, instructions, hasKeys: surroundings.readKeys !== undefined })
    using _keys = offerKeys(options, surroundings, view, instructions)
    view.list()
    const ending = await runScene(options, { ...stage, summary, stopping, view })
    over = true
    const [{ log }] = stage.controllers
    const why = ending === 'crashed' ? [await stage.crashed] : explain(ending, log)
    const bakes = await Promise.race([stage.bakes.outcome, STILL_BAKING])
    view.end([...summary.lines(), bakes.summary, ...why])
    return isGood(options, ending, summary) && (bakes.good || !options.once) ? 0 : 1
  } catch (error) {
    if (!(error instanceof Stopped)) throw error
    view.note('Stopped before the playground was running.')
    return options.once ? 1 : 0
  }
}

type Greeting = {
  options: PlaygroundOptions
  stage: Stage
  view: View
  instructions: Instructions
  hasKeys: boolean
}

function greet({ options, stage, view, instructions, hasKeys }: Greeting): void {
  const { kubeconfigPath: kubeconfig, binaries } = stage.controlPlane
  const lines = welcome({
    ...options,
    ...{ kubeconfig, kubectl: binaries.kubectl, searchPath: process.env.PATH ?? '' },
    ...stage.restServer,
    receiver: stage.receiver,
    held: stage.held,
    controllers: stage.controllers.map(({ replica, process }) => ({ replica, pid: process.pid })),
  })
  view.note(...lines)
  if (options.once) return
  instructions.setWelcome(lines)
  view.note(...reminder(shortPath(instructions.path, process.cwd()), hasKeys))
}

/** @returns the end of reading keys */
function offerKeys(
  { once }: PlaygroundOptions,
  { readKeys, stop }: Surroundings,
  view: View,
  instructions: Instructions,
): Disposable {
  const file = once ? undefined : shortPath(instructions.path, process.cwd())
  view.offerKeys({ areRead: readKeys !== undefined, file })
  const close = readKeys?.((key) => {
    if (key === 'quit') stop()
    else if (key === 'pause') view.pauseOrResume()
    else if (!once) view.present(instructions.lines)
  })
  return { [Symbol.dispose]: () => close?.() }
}

type Scene = {
  api: KubernetesClient
  crashed: Promise<string>
  bakes: Bakes
  summary: Summary
  stopping: AbortSignal
  view: View
}

/** Publishes until it is stopped or, with `once`, until ten deliveries have succeeded and the bakes have ended. */
async function runScene(options: PlaygroundOptions, scene: Scene): Promise<Ending> {
  const { summary, view } = scene
  let number = 0
  const publisher = setInterval(() => {
    number += 1
    publish(scene.api, number).catch((error: Error) =>
      view.note(`Failed to publish an event: ${error.message}`),
    )
  }, PUBLISH_EVERY_MS)
  const reporter = setInterval(() => view.report(), REPORT_EVERY_MS)
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
    clearInterval(reporter)
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
