import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'

export function isRunning(child: ChildProcess): boolean {
  return child.exitCode === null && child.signalCode === null
}

/** Ends it; returns when it is gone. @param forceAfterMs SIGKILL follows after so long */
export async function endChild(
  child: ChildProcess,
  signal: NodeJS.Signals,
  forceAfterMs: number,
): Promise<void> {
  if (!isRunning(child)) return
  const exited = once(child, 'exit')
  child.kill(signal)
  const force = setTimeout(() => child.kill('SIGKILL'), forceAfterMs)
  await exited
  clearTimeout(force)
}

/** The program of a process that is gone once more, as it was called then. */
export function respawn(gone: ChildProcess, showOutput: boolean): ChildProcess {
  const output = showOutput ? process.stderr : 'ignore'
  return spawn(gone.spawnfile, gone.spawnargs.slice(1), { stdio: ['ignore', output, output] })
}
