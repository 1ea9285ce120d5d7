/** The HTTP server of `davit api` as a process: it listens, counts requests, and ends without cutting off a response. */

import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { Server as TlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { type Clock, type Random, sleep } from '../lib/time.ts'
import { type CertificateSource, createHttpServer, type RequestListener } from '../server/http/server.ts'

export type ApiServerOptions = {
  /** An address without brackets; port 0 is any free port. */
  address: { host: string; port: number }
  listener: RequestListener
  /** Absent for plain http. */
  certificate?: CertificateSource | undefined
  clock: Clock
  random: Random
}

export type ApiServer = {
  address: AddressInfo
  inFlight(): number
  /**
   * Ends within `ms`. For the first `lingerMs` it still serves new requests, one for each connection, since load balancers need a
   * while to notice. After that it accepts no connection, closes idle ones, and answers the requests that are in flight.
   * @returns how many requests were cut off after `ms`
   */
  drain(times: { ms: number; lingerMs: number }): Promise<number>
}

/** @throws Error when the address cannot be listened on, or the certificate is invalid */
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
        // The connection would wait for a next request.
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
