// A lock between processes of one machine: a file that names its holder. In plain JavaScript, since the set-up needs it before
// there is a Node that strips types.

import { randomBytes } from 'node:crypto'
import { linkSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'

const POLL_MS = 50
/** Whether a holder on another machine (a shared home) is alive is unknown, so its lock is respected for this long. */
const FOREIGN_HOLDER_MS = 60 * 60_000

/**
 * Stands for an unreadable lock: a lock file is complete from the moment it appears, but a lost disk write may have emptied it.
 */
const UNREADABLE = { pid: 0, birth: null, host: hostname(), token: 'unreadable' }

/** Another process held the lock for longer than the caller would wait. */
export class LockTimeout extends Error {
  name = 'LockTimeout'
}

/**
 * Runs `work` while no other process holds the lock of this path. Takes over the lock of a holder that died.
 *
 * @template T
 * @param {string} path the lock file; its folder exists
 * @param {() => T | Promise<T>} work
 * @param {{ timeoutMs: number, onWait?: (holderPid: number) => void }} options `onWait` is called once
 * @returns {Promise<T>} what `work` returned
 * @throws {LockTimeout}
 */
export async function withProcessLock(path, work, { timeoutMs, onWait }) {
  const me = {
    pid: process.pid,
    birth: birthOf(process.pid),
    host: hostname(),
    token: randomBytes(6).toString('hex'),
  }
  const draft = `${path}.${me.token}.draft`
  writeFileSync(draft, JSON.stringify(me))
  try {
    await acquire({ path, draft, timeoutMs, onWait })
  } finally {
    rmSync(draft, { force: true })
  }
  try {
    return await work()
  } finally {
    rmSync(path, { force: true })
  }
}

async function acquire({ path, draft, timeoutMs, onWait }) {
  const deadline = performance.now() + timeoutMs
  let hasNotified = false
  while (!takes(draft, path)) {
    const holder = read(path)
    if (holder === undefined) continue
    if (!isAlive(holder, path) && breakLock(path, holder, draft)) continue
    if (!hasNotified) onWait?.(holder.pid)
    hasNotified = true
    if (performance.now() > deadline) {
      throw new LockTimeout(
        `process ${holder.pid} has held ${path} for too long. If the process hangs, delete that file.`,
      )
    }
    await sleep(POLL_MS)
  }
}

/** A link, unlike creating and then writing, never exposes a lock without its holder. */
function takes(draft, path) {
  try {
    linkSync(draft, path)
    return true
  } catch (error) {
    if (error.code === 'EEXIST') return false
    throw error
  }
}

/**
 * Removes a dead holder's lock. If several processes found it dead, only the one that claims this very holder may remove it:
 * otherwise the second would remove the lock that the first has just taken. A claimer may die as well.
 *
 * @returns {boolean} whether it is worth trying to take the lock immediately
 */
function breakLock(path, dead, draft) {
  const claim = `${path}.${dead.token}`
  if (!takes(draft, claim)) {
    const claimer = read(claim)
    return claimer === undefined || (!isAlive(claimer, claim) && breakLock(claim, claimer, draft))
  }
  if (read(path)?.token === dead.token) rmSync(path, { force: true })
  rmSync(claim, { force: true })
  return true
}

function isAlive(holder, path) {
  if (holder === UNREADABLE) return false
  if (holder.host !== hostname()) return ageOf(path) < FOREIGN_HOLDER_MS
  try {
    process.kill(holder.pid, 0)
  } catch (error) {
    return error.code === 'EPERM'
  }
  return birthOf(holder.pid) === holder.birth
}

function ageOf(path) {
  const stat = statSync(path, { throwIfNoEntry: false })
  return stat === undefined ? 0 : Date.now() - stat.mtimeMs
}

/** Tells a process from a later one with the same pid by boot and start time, if the kernel provides them. */
function birthOf(pid) {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The name in the second field may contain anything; the fields after its closing bracket are plain.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    // A zombie holds nothing, and stays forever if process 1 does not reap (many containers).
    return fields[0] === 'Z' || fields[0] === 'X' ? null : `${boot}/${fields[19]}`
  } catch {
    return null
  }
}

/** The holder of the lock; undefined if there is none. */
function read(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    return error.code === 'ENOENT' ? undefined : UNREADABLE
  }
}
