/** A receiver of docs/guides/verify-deliveries.md as a process that requests are sent to. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { freePort } from '../../playground/free-port.ts'
import type { SignedDelivery } from './signed-deliveries.ts'

/** Accepts or rejects deliveries. */
export type Verifier = {
  /** Whether it took it. @throws Error when it did neither in the way that the page says */
  takes(sent: SignedDelivery): Promise<boolean>
  /** What it has worked on: type and id of each. */
  worked(): string[]
  stop(): Promise<void>
}

export type Command = {
  program: string
  args: readonly string[]
  cwd: string
}

/** A receiver that does not read a large body to its end may close the connection before the answer is read. */
const CLOSED = 0
const REFUSALS = [401, 413, CLOSED]
const START_LIMIT_MS = 20_000
const ANSWER_LIMIT_MS = 10_000

/** @param secret that it knows */
export async function startReceiverProcess(
  { program, args, cwd }: Command,
  secret: string,
): Promise<Verifier> {
  const port = await freePort()
  const child = spawn(program, args, {
    cwd,
    env: { ...process.env, WEBHOOK_SECRET: secret, PORT: String(port) },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (more: string) => {
    stdout += more
  })
  child.stderr.setEncoding('utf8').on('data', (more: string) => {
    stderr += more
  })
  const ended = once(child, 'close').then(() => undefined)
  const stop = async () => {
    child.kill('SIGKILL')
    await ended
  }
  try {
    await untilListening(port, ended)
  } catch (error) {
    await stop()
    throw new Error(`${program} ${args.join(' ')} did not listen: ${stderr}`, { cause: error })
  }
  return {
    async takes(sent) {
      const status = await post(port, sent)
      if (status === 204 || REFUSALS.includes(status)) return status === 204
      throw new Error(`it answered ${status}: ${stderr}`)
    },
    worked: () => stdout.split('\n').filter((line) => line !== ''),
    stop,
  }
}

async function untilListening(port: number, ended: Promise<void>): Promise<void> {
  let over = false
  void ended.then(() => {
    over = true
  })
  const deadline = performance.now() + START_LIMIT_MS
  while (!over && performance.now() < deadline) {
    const socket = connect(port, '127.0.0.1')
    const connected = await once(socket, 'connect').then(
      () => true,
      () => false,
    )
    socket.destroy()
    if (connected) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error(over ? 'it ended' : 'it took too long')
}

/** The status of the answer, of a client that changes nothing of headers and body. */
function post(port: number, { id, timestamp, signatures, body }: SignedDelivery): Promise<number> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      {
        host: '127.0.0.1',
        port,
        path: '/hooks',
        method: 'POST',
        // One connection each: what a receiver does with one of them has no part in the next.
        agent: false,
        signal: AbortSignal.timeout(ANSWER_LIMIT_MS),
        headers: {
          'content-type': 'application/json',
          'content-length': body.length,
          'webhook-id': id,
          'webhook-timestamp': timestamp,
          'webhook-signature': signatures,
        },
      },
      (response) => {
        response.resume().on('end', () => resolve(response.statusCode ?? 0))
      },
    )
    request.on('error', (error: Error & { code?: string }) => {
      if (error.code === 'ECONNRESET' || error.code === 'EPIPE') resolve(CLOSED)
      else reject(error)
    })
    request.end(body)
  })
}
