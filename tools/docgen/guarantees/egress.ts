/** Rules for what webhooks may reach. */
import type { Row } from './row.ts'

const BLOCKED = [{ of: 'addresses', keys: ['cases', 'connections to forbidden addresses'] }] as const

export const EGRESS: readonly Row[] = [
  {
    name: 'Only https, and http where a network is allowed',
    how: 'judged when it is stored and at each attempt',
    tests: [
      '`url`: plain http > is refused with the reason towards a public address',
      '`test/contract/crd-samples`: is refused: another scheme',
    ],
  },
  {
    name: 'No user information, no fragment, at most 2,048 characters',
    how: 'by the schema and by the guard',
    tests: [
      '`test/contract/crd-samples`: is refused: user and password',
      '`test/contract/crd-samples`: is refused: a fragment',
      '`test/contract/crd-samples`: is refused: a URL of 2,049 characters',
    ],
  },
  {
    name: 'Every network that is not public, in any spelling',
    how: 'the parsed host is judged, never the text',
    tests: [
      '`test/hostile/addresses`: in any spelling, by https and http',
      '`test/hostile/addresses`: in a URL that seems to be another one',
    ],
    figures: [{ of: 'addresses', keys: ['spellings', 'tricks', 'connections to forbidden addresses'] }],
  },
  {
    name: "What is the operator's own and looks public",
    how: 'networks that the operator has closed are forbidden before all else, also as mapped, compatible, NAT64 and 6to4 addresses',
    tests: [
      '`src/net/address-policy`: where the operator has closed its network, $address is $want',
      '`src/net/address-policy`: a closed address of IPv4 is closed as %s, whatever is allowed',
    ],
  },
  {
    name: 'IPv6 forms of IPv4: mapped, compatible, NAT64, 6to4, Teredo',
    how: 'judged by what is embedded, or refused',
    tests: ['`src/net/address-policy`: %s is forbidden'],
    figures: BLOCKED,
  },
  {
    name: 'A name that shows one forbidden address is forbidden',
    how: 'all addresses are judged before one is dialled',
    tests: ['`test/hostile/addresses`: behind a name, alone or among public addresses, in whatever order'],
    figures: [{ of: 'addresses', keys: ['names', 'connections to forbidden addresses'] }],
  },
  {
    name: 'Resolved once for each connection; what was judged is dialled',
    how: 'one look-up, whose result is dialled, and looked at again when it is connected',
    tests: [
      '`test/hostile/addresses`: behind a name that showed an allowed address before, at each turn',
      '`src/webhooks/sender/webhook-sender-network`: a connection that ends up elsewhere than at a vetted address is given up',
    ],
    figures: [{ of: 'addresses', keys: ['rebindings', 'connections to forbidden addresses'] }],
  },
  {
    name: 'No redirect is followed',
    how: 'a 3xx is a failed attempt',
    tests: [
      '`test/hostile/addresses`: behind a redirect of any kind',
      '`url`: a redirect with %i is a failed attempt, and is not followed',
    ],
    figures: [{ of: 'addresses', keys: ['redirects', 'connections to forbidden addresses'] }],
  },
  {
    name: 'Names of the cluster and of machines',
    how: 'localhost, single labels, .local, .internal, .svc and the like reach allowed networks alone',
    tests: [
      '`src/net/egress-policy`: the name %s is refused while no network is allowed, and left to its addresses otherwise',
    ],
  },
  {
    name: 'TLS 1.2 at least, always verified, for the name of the URL',
    how: 'no way to switch it off',
    tests: [
      '`src/webhooks/sender/webhook-sender-tls`: *',
      '`attempts`: a certificate that is expired, for another name, or of an unknown authority',
    ],
  },
  {
    name: 'No proxy of the environment',
    how: 'sockets are opened by Davit itself',
    tests: ['`environment`: webhooks, and calls of the API server, go past a proxy of the environment'],
  },
  {
    name: 'Blocked looks like refused',
    how: 'the same words for both, so that nobody scans ports',
    tests: [
      '`src/webhooks/sender/outcome`: a blocked address reads exactly like a refused connection and is told apart by class only',
      '`url`: what only DNS shows > looks like a refused connection, and there is none',
    ],
  },
  {
    name: 'An answer is shown to the owner alone, and 256 characters of it',
    how: 'plain text, without control characters',
    tests: [
      '`src/webhooks/sender/response-text`: whatever bytes come in whatever pieces, the text is short, well-formed and harmless',
    ],
  },
  {
    name: 'No connection is shared between endpoints of different origins',
    how: 'a pool for each origin, with limits',
    tests: [
      '`src/webhooks/sender/sender`: origins share no connection',
      '`src/webhooks/sender/webhook-sender-hostile`: an extra response sent ahead does not answer the next request',
    ],
  },
]
