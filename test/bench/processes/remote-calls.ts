/** Calls between the bench and its processes, over the channel that `fork` makes. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'

/** Functions that a process offers; arguments and results are plain data. */
export type Calls = Record<string, (argument: never) => unknown>

type Request = { id: number; call: string; argument: unknown }
type Reply = { id: number; result: unknown } | { id: number; error: string }

/** A process that answers `Calls`. */
export type RemoteProcess<C extends Calls> = {
  pid: number
  call<K extends keyof C & string>(name: K, argument: Parameters<C[K]>[0]): Promise<Awaited<ReturnType<C[K]>>>
  /** Asks it to end, insists after a while, and resolves when it is gone. */
  stop(): Promise<void>
  /** Resolves with what it ended with, for whatever reason. */
  exited: Promise<string>
}

export type SpawnOptions = {
  args?: readonly string[]
  execArgv?: readonly string[]
  env?: Record<string, string>
  /** Absent: what it prints is dropped, but for its errors. */
  stdout?: number
}

const INSIST_AFTER_MS = 40_000

/** @param path of a module that calls `serveCalls` */
export function spawnProcess<C extends Calls>(path: string, options: SpawnOptions = {}): RemoteProcess<C> {
  const child = fork(path, options.args ?? [], {
    execArgv: [...(options.execArgv ?? [])],
    // Of the test run, and not a setting that Davit knows.
    env: { ...process.env, DAVIT_TESTS: undefined, ...options.env },
    serialization: 'advanced',
    stdio: ['ignore', options.stdout ?? 'ignore', 'inherit', 'ipc'],
  })
  const { pid } = child
  if (pid === undefined) throw new Error(`${path} cannot be started`)
  const waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>()
  const exited = exitOf(child)
  void exited.then((how) => {
    for (const { reject } of waiting.values()) reject(new Error(`${path} ended: ${how}`))
    waiting.clear()
  })
  child.on('message', (reply: Reply) => {
    const call = waiting.get(reply.id)
    waiting.delete(reply.id)
    if ('error' in reply) call?.reject(new Error(reply.error))
    else call?.resolve(reply.result)
  })
  let nextId = 0
  const call = (name: string, argument: unknown) =>
    new Promise<unknown>((resolve, reject) => {
      nextId += 1
      waiting.set(nextId, { resolve, reject })
      child.send({ id: nextId, call: name, argument } satisfies Request, (error) => error && reject(error))
    })
  return { pid, call: call as RemoteProcess<C>['call'], stop: () => stop(child), exited }
}

/** Answers the calls of the process that forked this one, and ends with it. */
export function serveCalls(calls: Calls): void {
  process.on('message', (request: Request) => void answer(calls, request))
  process.once('disconnect', () => process.exit())
}

async function answer(calls: Calls, { id, call, argument }: Request): Promise<void> {
  const reply = await resultOf(calls, call, argument).then(
    (result): Reply => ({ id, result }),
    (error: unknown): Reply => ({ id, error: error instanceof Error ? (error.stack ?? '') : String(error) }),
  )
  process.send?.(reply)
}

async function resultOf(calls: Calls, name: string, argument: unknown): Promise<unknown> {
  const call = calls[name]
  if (!call) throw new Error(`there is no call ${name}`)
  return await call(argument as never)
}

async function exitOf(child: ChildProcess): Promise<string> {
  const [code, signal] = (await once(child, 'exit')) as [number | null, string | null]
  return signal ?? `exit code ${code}`
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = once(child, 'exit')
  child.kill('SIGTERM')
  const insist = setTimeout(() => child.kill('SIGKILL'), INSIST_AFTER_MS)
  await gone
  clearTimeout(insist)
}
