/** The controllers of the playground: if one of several is killed, the others take over its shards. */

import { join } from 'node:path'
import type { ControlPlane } from './control-plane/control-plane.ts'
import { type DavitProcess, type Exit, startDavitProcess } from './davit-process.ts'
import { freePort } from './free-port.ts'
import { OPERATOR_NAMESPACE } from './organization.ts'

/** With short waits, the first retry comes after one or two seconds. */
const SHORT_WAITS = 0.05
/** Never pulled by a node: the pods of bakes run here as processes. */
const BAKE_IMAGE = 'registry.example.com/davit:playground'
const NAME = 'playground-controller'

export type PlaygroundController = {
  replica: string
  process: DavitProcess
  log: string
  opsUrl: string
}

export type ControllersOptions = {
  controllers: number
  realWaits: boolean
  /** Folder for their logs. */
  state: string
  /** Of the cloud. */
  environment: Readonly<Record<string, string>>
}

/** Starts the controllers without waiting until they are ready. @returns at least one; they end with `stack` */
export async function startControllers(
  options: ControllersOptions,
  controlPlane: ControlPlane,
  stack: AsyncDisposableStack,
): Promise<[PlaygroundController, ...PlaygroundController[]]> {
  const first = await startController(options, controlPlane, NAME)
  stack.defer(() => first.process.stop())
  const others: PlaygroundController[] = []
  for (let number = 2; number <= options.controllers; number += 1) {
    const other = await startController(options, controlPlane, `${NAME}-${number}`)
    stack.defer(() => other.process.stop())
    others.push(other)
  }
  return [first, ...others]
}

async function startController(
  { state, realWaits, environment }: ControllersOptions,
  { kubeconfigPath }: ControlPlane,
  replica: string,
): Promise<PlaygroundController> {
  const opsPort = await freePort()
  const log = join(state, `${replica.replace('playground-', '')}.log`)
  const process = startDavitProcess({
    role: 'controller',
    kubeconfig: kubeconfigPath,
    namespace: OPERATOR_NAMESPACE,
    opsPort,
    settings: {
      DAVIT_REPLICA: replica,
      DAVIT_WAIT_SCALE: String(realWaits ? 1 : SHORT_WAITS),
      DAVIT_BAKE_IMAGE: BAKE_IMAGE,
      ...environment,
    },
    logPath: log,
  })
  return { replica, process, log, opsUrl: `http://127.0.0.1:${opsPort}` }
}

/** Resolves with a sentence when the last controller has ended. @param note reports each earlier exit immediately */
export async function lastToEnd(
  controllers: readonly PlaygroundController[],
  note: (line: string) => void,
): Promise<string> {
  let left = controllers.length
  const hint = left === 1 ? 'To see another controller take over, start with --controllers 2. ' : ''
  return await new Promise((resolve) => {
    for (const { replica, process, log } of controllers)
      void process.exited.then((exit) => {
        left -= 1
        if (left === 0) resolve(`${replica} ${describeExit(exit)}. ${hint}See its log: ${log}`)
        else for (const line of lossNotice(replica, exit)) note(line)
      })
  })
}

function lossNotice(replica: string, exit: Exit): string[] {
  if (exit.signal === null)
    return [`${replica} ${describeExit(exit)}. The other controllers take over its endpoints immediately.`]
  return [
    `${replica} ${describeExit(exit)}. Its endpoints pause for about half a minute, until its Lease`,
    'and its last attempt expire. The other controllers then take over and keep the order.',
  ]
}

/** Describes an exit: `exited with code 1`. */
export function describeExit({ code, signal }: Exit): string {
  return signal === null ? `exited with code ${code}` : `was terminated by ${signal}`
}
