import { type AddressClass, addressClass } from '../../net/address-class.ts'

/** Docker Hub's API has another host than its images. */
const API_HOSTS: ReadonlyMap<string, string> = new Map([['docker.io', 'registry-1.docker.io']])

/** The host that is asked for images of a registry. */
export function apiHostOf(registry: string): string {
  return API_HOSTS.get(registry) ?? registry
}

/**
 * Where one may go from a registry, by the address that a name has in the moment in which it is dialled. A registry may be in a
 * private network, and so may be whatever it names; one that is public leads nobody into such a network. Loopback has to be meant: by
 * its name, or by the operator. Each registry has its own, so that what is near one of them is not open to another.
 */
export class EgressPolicy {
  readonly #registry: string | undefined
  readonly #allowed: ReadonlySet<string | undefined>
  /** Where the registry was found. */
  readonly #places = new Set<AddressClass>()

  /** @param allowed hosts of the operator; all hosts have their port where it is not 443 */
  constructor(registry: string, allowed: readonly string[]) {
    this.#registry = urlHostOf(apiHostOf(registry))
    this.#allowed = new Set(allowed.map(urlHostOf))
  }

  isRegistry({ host }: URL): boolean {
    return this.#registry === host
  }

  permits(kind: AddressClass, url: URL): boolean {
    const isOwn = this.isRegistry(url)
    const isBeside = this.#places.has('loopback') || this.#allowed.has(url.host)
    if (kind === 'private') return isOwn || isBeside || this.#places.has('private')
    if (kind === 'loopback') return isBeside || (isOwn && isLoopbackName(url))
    return kind === 'public'
  }

  /** Told where it went. */
  recordConnection(kind: AddressClass, url: URL): void {
    if (this.isRegistry(url)) this.#places.add(kind)
  }
}

/** As URLs write it; undefined where it is none. */
function urlHostOf(text: string): string | undefined {
  return URL.parse(`https://${text}`)?.host
}

/** Names that mean this machine whoever answers for names. */
function isLoopbackName({ hostname }: URL): boolean {
  const isNamed = hostname === 'localhost' || hostname.endsWith('.localhost')
  return isNamed || addressClass(hostname.replace(/^\[|\]$/g, '')) === 'loopback'
}
