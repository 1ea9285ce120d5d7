// The process that holds etcd and API server, so that they outlive neither their owner nor a Ctrl-C after which the owner still
// has work to do: it has a process group of its own, and stops when its stdin ends, which the kernel guarantees whatever happens
// to the owner.

import { rm } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import type { HelperMessage, HelperRequest, HelperSettings } from './protocol.ts'
import { ControlPlaneServers } from './servers.ts'

/** The time limit for everything to end after stdin has ended, by force if necessary. */
const END_LIMIT_MS = 15_000

/** Handles one request at a time. */
async function serve(): Promise<void> {
  const lines = createInterface({ input: process.stdin, crlfDelay: Number.POSITIVE_INFINITY })
  const ended = new Promise<void>((resolve) => lines.once('close', resolve))
  const settings = await new Promise<HelperSettings | undefined>((resolve) => {
    lines.once('line', (line) => resolve(JSON.parse(line) as HelperSettings))
    lines.once('close', () => resolve(undefined))
  })
  if (settings === undefined) return
  const servers = new ControlPlaneServers(settings)
  const signalled = new Promise((resolve) => process.once('SIGTERM', resolve))
  void Promise.race([ended, signalled]).then(() => end(servers, settings))
  let turn = announceStart(servers)
  lines.on('line', (line) => {
    turn = turn.then(() => answer(servers, JSON.parse(line) as HelperRequest))
  })
}

async function announceStart(servers: ControlPlaneServers): Promise<void> {
  try {
    const controlPlane = await servers.start()
    say({ kind: 'started', controlPlane, pids: servers.pids() })
  } catch (error) {
    say({ kind: 'failed', message: messageOf(error) })
  }
}

async function answer(servers: ControlPlaneServers, request: HelperRequest): Promise<void> {
  try {
    await servers[request.action]()
    say({ kind: 'done', id: request.id, pids: servers.pids() })
  } catch (error) {
    say({ kind: 'refused', id: request.id, message: messageOf(error) })
  }
}

async function end(servers: ControlPlaneServers, settings: HelperSettings): Promise<void> {
  setTimeout(() => process.kill(-process.pid, 'SIGKILL'), END_LIMIT_MS)
  await servers.stop()
  if (settings.removeWorkDir) await rm(settings.workDir, { recursive: true, force: true, maxRetries: 5 })
  process.exit()
}

function say(message: HelperMessage): void {
  process.stdout.write(`${JSON.stringify(message)}\n`)
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

// The owner may be gone before it has read the last answer.
process.stdout.on('error', () => {})

await serve()
