import { lookup } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import { connect, getCACertificates, type TLSSocket } from 'node:tls'
import type { buildConnector } from 'undici'
import { type AddressClass, addressClass } from './address-class.ts'
import { ForbiddenAddressError } from './connect-failure.ts'

const CONNECT_MS = 10_000

/** Who is trusted: what Node and the machine trust, as the tool does, and one more where it is given. */
export function trustedAuthorities(extraCa: string | undefined): string[] {
  const own = [...getCACertificates('default'), ...getCACertificates('system')]
  return extraCa === undefined ? own : [...own, extraCa]
}

export type VettedConnectOptions = {
  ca: readonly string[]
  /** Asked of every address before the first packet. */
  permits(kind: AddressClass): boolean
  /** Told where it went. */
  onConnected(kind: AddressClass): void
}

/**
 * Connects over TLS to an address that was looked at in the very moment in which it is dialled: what a name meant before does not
 * count. One forbidden address among several makes the name forbidden, since which one is dialled would be chance.
 */
export function vettedConnect(options: VettedConnectOptions): buildConnector.connector {
  return (target, callback) => {
    const hostname = target.hostname.replace(/^\[|\]$/g, '')
    const literal = isIP(hostname) !== 0
    if (literal && !options.permits(addressClass(hostname)))
      return callback(new ForbiddenAddressError(), null)
    const socket: TLSSocket = connect({
      host: hostname,
      port: Number(target.port) || 443,
      lookup: vettedLookup(options.permits),
      ...(literal ? {} : { servername: hostname }),
      ca: [...options.ca],
      minVersion: 'TLSv1.2',
      ALPNProtocols: ['http/1.1'],
      autoSelectFamily: true,
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

function vettedLookup(permits: (kind: AddressClass) => boolean): LookupFunction {
  return (hostname, _options, callback) => {
    lookup(hostname, { all: true, verbatim: true }, (error, found) => {
      if (error) return callback(error, [])
      if (!found.every(({ address }) => permits(addressClass(address))))
        return callback(
          new ForbiddenAddressError(`${hostname} is at an address that no bake connects to`),
          [],
        )
      callback(null, found)
    })
  }
}

function timeoutError(): Error {
  return Object.assign(new Error('the connection was not made in time'), { code: 'ETIMEDOUT' })
}
