import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { LockTimeout, withProcessLock } from './process-lock.mjs'

const MODULE = fileURLToPath(new URL('./process-lock.mjs', import.meta.url))

const DEAD = { pid: 2 ** 22 + 1, birth: 'x', host: hostname(), token: 'aaaa' }

/** Threads, since they can race for a lock within a microsecond of each other, which processes cannot. */
const CONTENDER = `
  const { workerData: { module, lock, rounds, contenders, shared } } = require('node:worker_threads')
  const spin = (ms) => { for (const end = performance.now() + ms; performance.now() < end; ) {} }
  const work = () => {
    const inside = Atomics.add(shared, 2, 1) + 1
    if (inside > Atomics.load(shared, 3)) Atomics.store(shared, 3, inside)
    spin(1)
    Atomics.sub(shared, 2, 1)
  }
  import(module).then(async ({ withProcessLock }) => {
    for (let round = 0; round < rounds; round++) {
      if (Atomics.add(shared, 0, 1) + 1 === contenders * (round + 1)) {
        Atomics.add(shared, 1, 1)
        Atomics.notify(shared, 1)
      } else {
        Atomics.wait(shared, 1, round)
      }
      await withProcessLock(lock + round, work, { timeoutMs: 30_000 })
    }
  })`

let folder: string
let lock: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'process-lock-'))
  lock = join(folder, 'lock')
})

afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** A process that takes the lock, reports it, and keeps the lock until it is killed. */
async function holderProcess(): Promise<ReturnType<typeof spawn>> {
  const script = `
    import { withProcessLock } from ${JSON.stringify(MODULE)}
    await withProcessLock(${JSON.stringify(lock)}, () => {
      process.stdout.write('held')
      return new Promise(() => setInterval(() => {}, 60_000))
    }, { timeoutMs: 60_000 })`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(child.stdout, 'data')
  return child
}

async function kill(child: ReturnType<typeof spawn>): Promise<void> {
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

describe('withProcessLock', () => {
  it('returns what the work returns, and leaves nothing behind', async () => {
    const result = await withProcessLock(lock, () => 'made', { timeoutMs: 1_000 })
    expect(result).toBe('made')
    expect(readdirSync(folder)).toEqual([])
  })

  it('frees the lock when the work fails', async () => {
    const work = () => Promise.reject(new Error('no space'))
    await expect(withProcessLock(lock, work, { timeoutMs: 1_000 })).rejects.toThrow('no space')
    expect(existsSync(lock)).toBe(false)
  })

  it('names the holder to the one that waits, once, and gives up at its limit', async () => {
    const holder = await holderProcess()
    const named: number[] = []
    const waiting = withProcessLock(lock, () => 'never', {
      timeoutMs: 0,
      onWait: (pid) => named.push(pid),
    })
    await expect(waiting).rejects.toBeInstanceOf(LockTimeout)
    expect(named).toEqual([holder.pid])
    await kill(holder)
  })

  it('takes over the lock of a holder that was killed', async () => {
    await kill(await holderProcess())
    expect(existsSync(lock)).toBe(true)
    await expect(withProcessLock(lock, () => 'mine', { timeoutMs: 0 })).resolves.toBe('mine')
    expect(readdirSync(folder).filter((name) => !name.endsWith('.draft'))).toEqual([])
  })

  it('takes over where another process has the number of the dead holder by now', async () => {
    const dead = { pid: process.pid, birth: 'another boot/1', host: hostname(), token: 'aaaa' }
    writeFileSync(lock, JSON.stringify(dead))
    await expect(withProcessLock(lock, () => 'mine', { timeoutMs: 0 })).resolves.toBe('mine')
  })

  it('takes over a lock file that a lost disk write emptied', async () => {
    writeFileSync(lock, '')
    await expect(withProcessLock(lock, () => 'mine', { timeoutMs: 0 })).resolves.toBe('mine')
  })

  it('takes over where the one that was taking over died as well', async () => {
    writeFileSync(lock, JSON.stringify(DEAD))
    writeFileSync(`${lock}.aaaa`, JSON.stringify({ ...DEAD, token: 'bbbb' }))
    await expect(withProcessLock(lock, () => 'mine', { timeoutMs: 0 })).resolves.toBe('mine')
    expect(readdirSync(folder)).toEqual([])
  })

  it('believes a holder on another machine', async () => {
    writeFileSync(lock, JSON.stringify({ pid: 1, birth: null, host: 'another-host', token: 'aaaa' }))
    await expect(withProcessLock(lock, () => 'never', { timeoutMs: 0 })).rejects.toBeInstanceOf(LockTimeout)
  })

  it('lets in one at a time when many find a dead holder at the same moment', async () => {
    const rounds = 40
    const contenders = 3
    for (let round = 0; round < rounds; round++) writeFileSync(`${lock}${round}`, JSON.stringify(DEAD))
    // 0: how many wait at the barrier, 1: rounds begun, 2: how many are inside, 3: the maximum of those
    const shared = new Int32Array(new SharedArrayBuffer(16))
    const workerData = { module: MODULE, lock, rounds, contenders, shared }
    const workers = Array.from(
      { length: contenders },
      () => new Worker(CONTENDER, { eval: true, workerData }),
    )
    const exits = await Promise.all(workers.map((worker) => once(worker, 'exit')))
    expect(exits).toEqual(workers.map(() => [0]))
    expect(shared[1]).toBe(rounds)
    expect(shared[3]).toBe(1)
  }, 60_000)
})
