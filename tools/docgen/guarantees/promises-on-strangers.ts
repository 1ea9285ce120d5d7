/** What others may do to an organization, or learn of it: other organizations, receivers, and who writes objects. */
import type { Row } from './row.ts'

export const PROMISES_ON_STRANGERS: readonly Row[] = [
  {
    name: 'Secrets stay out',
    how: 'a secret is in memory for one request; the role in the account can only write',
    tests: ['`test/canary/canary`: *', '`test/rest/audit-log`: *', '`secrets-stay`: *'],
    figures: [
      {
        of: 'canary',
        keys: [
          'secrets',
          'processes killed',
          'places looked through',
          'MiB looked through',
          'found in any form',
        ],
      },
    ],
  },
  {
    name: 'Tenants are walled off',
    how: 'names are validated before a path is made of them; references stay in their namespace; a right is reviewed for each operation',
    tests: [
      '`test/rest/access-matrix`: *',
      '`src/kube/resource-path`: is never made with the name %j: no such object can be',
      '`neighbours`: *',
      '`src/webhooks/delivery/foreign-objects`: *',
      '`test/hostile/foreign-names`: nothing of another organization is shown, sent, changed or held up, whatever names of it are written',
    ],
    figures: [
      {
        of: 'foreign-names',
        keys: [
          'objects stored',
          'names of both organizations',
          'webhooks with its data elsewhere',
          'its secrets shown',
          'its events',
          'its events received',
        ],
      },
    ],
  },
  {
    name: 'SSRF is closed',
    how: 'literals are judged, the vetted address is dialled, no redirect, no proxy, the same text for blocked and refused',
    tests: [
      '`test/hostile/addresses`: *',
      '`url`: *',
      '`environment`: webhooks, and calls of the API server, go past a proxy of the environment',
    ],
    figures: [
      {
        of: 'addresses',
        keys: ['cases', 'connections to forbidden addresses', 'connections to the allowed one'],
      },
    ],
  },
  {
    name: 'A hostile receiver costs a bounded amount',
    how: 'one deadline of 20 seconds in all, 16 KB of an answer, nothing is unpacked',
    tests: [
      '`test/hostile/receivers`: each ends in 20 seconds with an outcome in words, the others get all meanwhile, and no socket stays',
      '`src/webhooks/sender/webhook-sender-limits`: *',
    ],
    figures: [
      { of: 'receivers', keys: ['kinds of receivers', 'longest attempt, ms', 'connections left open'] },
      {
        of: 'soak',
        keys: [
          'minutes',
          'hostile receivers',
          'connections to them',
          'heap slope, MB/h',
          'resident slope, MB/h',
          'most resident, MB',
          'open files, most',
        ],
      },
    ],
  },
  {
    name: 'A poisoned object stops nobody',
    how: 'parsed at the edge; a condition on the object; the others go on',
    tests: [
      '`test/hostile/poisoned`: whatever is stored while they run, and is there when they start',
      '`test/hostile/other-crds`: $name, from the start and then exchanged for those that ship',
      '`poison`: *',
      '`poison-log`: *',
    ],
    figures: [
      {
        of: 'poisoned-objects',
        keys: ['odd objects stored', 'kinds', 'process exits', 'good events', 'of them received'],
      },
      { of: 'other-crds', keys: ['older: process exits', 'newer: process exits'] },
    ],
  },
]
