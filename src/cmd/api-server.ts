/** The facade's HTTP server as a process has it: it listens, counts, and ends without breaking off an answer. */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { Server as TlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Clock, Random } from '../lib/ports-clock.ts'
import { sleep } from '../lib/sleep.ts'
import type { CertificateSource } from '../server/http/ports-certificate.ts'
import { createHttpServer, type RequestListener } from '../server/http/server.ts'

export type ApiServerOptions = {
  /** An address without brackets; port 0: any free one. */
  address: { host: string; port: number }
  listener: RequestListener
  /** Absent: plain http. */
  certificate?: CertificateSource | undefined
  clock: Clock
  random: Random
}

export type ApiServer = {
  address: AddressInfo
  /** Requests that are being answered. */
  inFlight(): number
  /**
   * Ends within `ms`. For `lingerMs` of them whoever still comes is served, since it takes a while until nobody is sent
   * here any more, and told to come no more on that connection. Then no new connection, and none that waits for its
   * next request; requests under way are answered.
   * @returns how many were broken off after `ms`
   */
  drain(times: { ms: number; lingerMs: number }): Promise<number>
}

/** @throws Error when the address cannot be listened on, or the certificate is none */
export async function startApiServer(options: ApiServerOptions): Promise<ApiServer> {
  const { address, listener, certificate, clock, random } = options
  const answering = new Set<ServerResponse>()
  let draining = false
  let closing = false
  const server = createHttpServer(
    (request: IncomingMessage, response: ServerResponse) => {
      answering.add(response)
      if (draining) response.shouldKeepAlive = false
      response.once('close', () => {
        answering.delete(response)
        // Its connection would wait for a request that must not come.
        if (closing) setImmediate(() => server.closeIdleConnections())
      })
      listener(request, response)
    },
    { random, certificate: certificate?.current() },
  )
  certificate?.listen((renewed) => {
    if (server instanceof TlsServer) server.setSecureContext(renewed)
  })
  await listen(server, address)
  return {
    address: server.address() as AddressInfo,
    inFlight: () => answering.size,
    async drain({ ms, lingerMs }) {
      draining = true
      for (const response of answering) response.shouldKeepAlive = false
      if (lingerMs > 0) await sleep(clock, lingerMs)
      closing = true
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      await Promise.race([closed, sleep(clock, ms - lingerMs)])
      const left = answering.size
      server.closeAllConnections()
      await closed
      return left
    },
  }
}

function listen(server: Server, { host, port }: ApiServerOptions['address']): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      resolve()
    })
  })
}
