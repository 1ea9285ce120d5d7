import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Clock } from '../../src/lib/time.ts'
import type { Answer } from './protocol.ts'
import type { Received } from './received.ts'
import type { SignedRequest } from './sigv4.ts'

export type HttpServerOptions = {
  /** 0 for a free port. */
  port: number
  clock: Clock
  received: Received
  answer(request: SignedRequest): Promise<Answer | 'cut'>
}

const MAX_BODY_BYTES = 1024 * 1024
const MAX_HEADER_BYTES = 32 * 1024

/** One port for all services, on loopback only. */
export async function startHttpServer(
  options: HttpServerOptions,
): Promise<{ url: string; stop(): Promise<void> }> {
  const server = createServer({ maxHeaderSize: MAX_HEADER_BYTES }, (request, response) => {
    // Clients set their clock by this header, so it has the emulator's time.
    response.sendDate = false
    void serve(options, request, response).catch(() => request.socket.destroy())
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

async function serve(
  options: HttpServerOptions,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const body = await readBody(request)
  if (!body) {
    response.writeHead(413, { connection: 'close', date: dateOf(options) }).end()
    return
  }
  options.received.add(request, body)
  const { method = '', url = '/', headers } = request
  const isKnown = method === 'POST' && url === '/' && headers['content-encoding'] === undefined
  const answer: Answer | 'cut' = isKnown
    ? await options.answer({ method, url, headers, body })
    : { status: 404, headers: {}, body: '' }
  if (answer === 'cut') {
    request.socket.destroy()
    return
  }
  response.writeHead(answer.status, { ...answer.headers, date: dateOf(options) }).end(answer.body)
}

/** @returns undefined if the body is too long; the rest of it is not read */
async function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > MAX_BODY_BYTES) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function dateOf({ clock }: HttpServerOptions): string {
  return new Date(clock.now()).toUTCString()
}
