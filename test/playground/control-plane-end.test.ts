import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, it, vi } from 'vitest'
import {
  type ControlPlane,
  ControlPlaneFailed,
  startControlPlane,
} from '../../playground/control-plane/control-plane.ts'
import type { ControlPlanePids } from '../../playground/control-plane/protocol.ts'

const OWNER = fileURLToPath(new URL('../support/control-plane-owner.ts', import.meta.url))

let owner: ChildProcess | undefined
let controlPlane: ControlPlane | undefined

afterEach(async () => {
  owner?.kill('SIGKILL')
  await controlPlane?.stop()
})

type Owner = { child: ChildProcess; next(): Promise<unknown>; pids: ControlPlanePids; workDir: string }

async function startOwner(): Promise<Owner> {
  // In a group of its own, as a shell gives a job that Ctrl-C is for.
  const child = spawn(process.execPath, [OWNER], { detached: true, stdio: ['ignore', 'pipe', 'inherit'] })
  owner = child
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const next = async () => JSON.parse((await lines.next()).value ?? 'null')
  return { child, next, ...((await next()) as Pick<Owner, 'pids' | 'workDir'>) }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/** No event tells of the end of another's children. */
async function untilGone(pids: ControlPlanePids): Promise<void> {
  const left = () => Object.entries(pids).filter(([, pid]) => isAlive(pid))
  await vi.waitFor(() => expect(left()).toEqual([]), { timeout: 20_000, interval: 50 })
}

describe('the end of a control plane', () => {
  it('leaves no process and no file when its owner is killed', async () => {
    const { child, pids, workDir } = await startOwner()
    expect(Object.values(pids).every(isAlive)).toBe(true)
    child.kill('SIGKILL')
    await untilGone(pids)
    expect(existsSync(workDir)).toBe(false)
  })

  it('waits for its owner, which still works after a Ctrl-C', async () => {
    const { child, next, pids } = await startOwner()
    process.kill(-(child.pid ?? 0), 'SIGINT')
    expect(await next()).toEqual({ answered: 200 })
    await once(child, 'exit')
    await untilGone(pids)
  })

  it('comes with the end of its helper, and is told to the owner', async () => {
    controlPlane = await startControlPlane()
    const pids = controlPlane.pids
    process.kill(pids.helper, 'SIGKILL')
    await controlPlane.exited
    await untilGone(pids)
    expect(existsSync(controlPlane.kubeconfigPath)).toBe(false)
    await expect(controlPlane.stopApiServer()).rejects.toBeInstanceOf(ControlPlaneFailed)
    await controlPlane.stop()
  })

  it('is a failure with the output of the server that would not start', async () => {
    const starting = startControlPlane({ apiServerFlags: { 'no-such-flag': 'x' } })
    await expect(starting).rejects.toThrow(/unknown flag: --no-such-flag/)
    await expect(starting).rejects.toBeInstanceOf(ControlPlaneFailed)
  })
})
