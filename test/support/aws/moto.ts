/** Runs moto, a third-party AWS emulator, as a process. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { freePort } from '../../../playground/free-port.ts'
import { ensurePythonVenv } from '../python-venv.ts'

const REQUIREMENTS = fileURLToPath(new URL('moto-requirements.txt', import.meta.url))
/** It ends when the pipe to the test closes, so that even a killed test leaves nothing behind. */
const PROGRAM = `
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
from moto.server import main
main(["-H", "127.0.0.1", "-p", sys.argv[1]])
`
const READY_LIMIT_MS = 60_000
const POLL_MS = 100

/** @throws NoPythonError if the machine has no Python, or no packages for it */
export async function startMoto(): Promise<{ url: string; stop(): Promise<void> }> {
  const bin = await ensurePythonVenv({ name: 'moto', requirements: REQUIREMENTS, say: () => undefined })
  const port = await freePort()
  const child = spawn(join(bin, 'python'), ['-c', PROGRAM, String(port)], {
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  const ended = once(child, 'exit')
  const url = `http://127.0.0.1:${port}`
  const limit = performance.now() + READY_LIMIT_MS
  while (!(await answers(url))) {
    if (child.exitCode !== null || performance.now() > limit) {
      child.kill('SIGKILL')
      throw new Error(`moto does not start: exit code ${child.exitCode}`)
    }
    await sleep(POLL_MS)
  }
  return {
    url,
    async stop() {
      child.kill('SIGKILL')
      await ended
    },
  }
}

async function answers(url: string): Promise<boolean> {
  try {
    return (await fetch(`${url}/moto-api/data.json`)).ok
  } catch {
    return false
  }
}
