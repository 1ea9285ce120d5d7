import { isIP } from 'node:net'
import { connect, createSecureContext, getCACertificates, type SecureContext, type TLSSocket } from 'node:tls'
import type { buildConnector } from 'undici'
import { type AddressClass, addressClass } from './address-class.ts'
import { forbiddenLiteral, vettedLookup } from './vetted-lookup.ts'

const CONNECT_MS = 10_000

/** Who is trusted: what Node and the machine trust, as the tool does, and one more where it is given. Read once: it takes long. */
export function loadTrustedCertificates(extraCa: string | undefined): SecureContext {
  const own = [...getCACertificates('default'), ...getCACertificates('system')]
  const ca = extraCa === undefined ? own : [...own, extraCa]
  return createSecureContext({ ca, minVersion: 'TLSv1.2' })
}

export type VettedConnectOptions = {
  trust: SecureContext
  /** Asked of every address before the first packet. */
  permits(kind: AddressClass): boolean
  /** Told where it went. */
  onConnected(kind: AddressClass): void
}

/** Connects over TLS to an address that was looked at in the very moment in which it is dialled. */
export function vettedConnect(options: VettedConnectOptions): buildConnector.connector {
  return (target, callback) => {
    const hostname = target.hostname.replace(/^\[|\]$/g, '')
    const literal = isIP(hostname) !== 0
    const forbidden = forbiddenLiteral(hostname, options.permits)
    if (forbidden) return callback(forbidden, null)
    const socket: TLSSocket = connect({
      host: hostname,
      port: Number(target.port) || 443,
      lookup: vettedLookup(options.permits),
      ...(literal ? {} : { servername: hostname }),
      secureContext: options.trust,
      ALPNProtocols: ['http/1.1'],
    })
    let settled = false
    const settle = (error: Error | null) => {
      if (settled) return
      settled = true
      socket.setTimeout(0)
      if (error) {
        socket.destroy()
        callback(error, null)
        return
      }
      options.onConnected(addressClass(socket.remoteAddress ?? ''))
      callback(null, socket)
    }
    socket.setTimeout(CONNECT_MS, () => settle(timeoutError()))
    socket.once('secureConnect', () => settle(null))
    // Stays for good: a late error of a socket that nobody uses any more must not end the process.
    socket.on('error', (error) => settle(error))
  }
}

function timeoutError(): Error {
  return Object.assign(new Error('the connection was not made in time'), { code: 'ETIMEDOUT' })
}
