import { lookup } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import { type AddressClass, addressClass } from './address-class.ts'

/** The address is one that no bake connects to. */
export class ForbiddenAddressError extends Error {
  override readonly name = 'ForbiddenAddressError'
  readonly code = 'FORBIDDEN_ADDRESS'
}

/**
 * For the moment in which an address is dialled: what a name meant before does not count. One forbidden address among several makes
 * the name forbidden, since which one is dialled would be chance.
 */
export function vettedLookup(permits: (kind: AddressClass) => boolean): LookupFunction {
  return (hostname, _options, callback) => {
    lookup(hostname, { all: true, verbatim: true }, (error, found) => {
      if (error) return callback(error, [])
      if (!found.every(({ address }) => permits(addressClass(address))))
        return callback(forbidden(hostname), [])
      callback(null, found)
    })
  }
}

/** Of a host that is an address already, which nobody looks up. @param hostname without brackets */
export function forbiddenLiteral(
  hostname: string,
  permits: (kind: AddressClass) => boolean,
): ForbiddenAddressError | undefined {
  return isIP(hostname) === 0 || permits(addressClass(hostname)) ? undefined : forbidden(hostname)
}

function forbidden(hostname: string): ForbiddenAddressError {
  return new ForbiddenAddressError(`${hostname} is at an address that no bake connects to`)
}
