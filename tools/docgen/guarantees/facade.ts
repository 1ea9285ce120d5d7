/** Rules for the REST facade, by the risks of OWASP's list for APIs (2023). */
import type { Row } from './row.ts'

export const FACADE: readonly Row[] = [
  {
    name: 'API1: objects of others',
    how: 'every route with ids of another organization is the 404 of what is not there',
    tests: [
      '`test/rest/access-matrix`: *',
      '`src/server/access-matrix`: the headers, too, are the same for what is not there and what may not be seen, on every route',
    ],
  },
  {
    name: 'API2: keys',
    how: 'tokens for an audience of their own, reviewed; expired, foreign and damaged ones are refused; floods of them keep nobody out',
    tests: [
      '`test/rest/reviews`: *',
      '`test/rest/review-floods`: *',
      '`src/server/http/auth`: *',
      '`src/server/http/api-key`: *',
    ],
  },
  {
    name: 'API3: fields of objects',
    how: 'answers are built field by field; a request with unknown fields is refused',
    tests: [
      '`src/server/http/validate`: *',
      '`src/server/http/openapi`: an answer may gain members, a request may not',
    ],
  },
  {
    name: 'API4: resources',
    how: 'limits on bodies before they are read, pages, headers, connections, requests a second, endpoints and keys',
    tests: [
      '`test/rest/raw-limits`: *',
      '`src/server/http/server`: *',
      '`src/server/http/rate-limit`: *',
      '`test/rest/full-organizations`: *',
    ],
    figures: [
      {
        of: 'soak',
        keys: [
          'minutes',
          'facade: kinds of hostile clients',
          'facade: hostile clients',
          'facade: connections held for too long',
          'facade: good requests',
          'facade: of them not answered as they should be',
          'facade: heap slope, MB/h',
          'facade: most resident, MB',
          'facade: open files, most',
        ],
      },
    ],
  },
  {
    name: 'API5: operations of owners',
    how: 'each route asks for its own right; a route without one does not pass the tests',
    tests: ['`test/rest/rbac`: *', '`test/rest/verdicts`: *'],
  },
  {
    name: 'API6: flows that are repeated',
    how: 'pings, redeliveries and rolls count against the same limits, and are idempotent under a key',
    tests: ['`test/rest/idempotency`: *'],
  },
  {
    name: 'API7: SSRF',
    how: 'the guard of webhooks, at creating, at changing and at each attempt',
    tests: [
      '`test/rest/endpoint-changes`: changing > refuses a forbidden url and unknown types as creating does',
    ],
    figures: [{ of: 'addresses', keys: ['cases', 'connections to forbidden addresses'] }],
  },
  {
    name: 'API8: what a server says of itself',
    how: 'one handler of errors with stable codes; no stack, no body, no cause',
    tests: [
      '`test/rest/refusals`: *',
      '`src/server/http/rest-app`: $error.message is answered as $want.1, without a word of what is inside',
    ],
  },
  {
    name: 'API9: what there is',
    how: 'the OpenAPI document is made of the routes',
    tests: [
      '`src/server/http/openapi`: every route is an operation, and every operation a route',
      '`test/rest/http`: the document that is served is the one in the documentation',
    ],
  },
  {
    name: 'API10: answers of others',
    how: 'receivers, AWS and registries are parsed with limits like a request',
    tests: ['`src/webhooks/sender/webhook-sender-hostile`: *', '`src/credentials/aws/error-words`: *'],
  },
  {
    name: 'Express and Node: bodies, escapes, depths, prototypes',
    how: 'what cannot be parsed is 400, what is too deep or too long is refused before it costs anything; no pattern takes longer than in proportion to a text, or than its square where it is short',
    tests: [
      '`src/server/http/bad-requests`: *',
      '`src/server/http/raw-requests`: *',
      '`src/server/http/body`: *',
      '`test/fuzz/patterns`: *',
    ],
  },
  {
    name: 'Clients that go away',
    how: 'what was begun is done and told of; nothing is kept',
    tests: ['`test/rest/gone-clients`: *'],
  },
  {
    name: 'Changes are told of, secrets are not',
    how: 'one line for each change: who, what, with what end',
    tests: [
      '`test/rest/audit-log`: *',
      '`src/server/http/rest-app`: changes are in the log with who made them, and neither a key nor a secret is',
    ],
  },
]
