/** What Davit promises. */

import { CHAOS, FLEET } from './chaos-tests.ts'
import { STORM_LISTS } from './limits.ts'
import { PROMISES_ON_STRANGERS } from './promises-on-strangers.ts'
import type { Row } from './row.ts'

/** Faults after which another replica has to go on. */
const FAIL_OVERS = ['roll controllers', 'kill controller', 'suspend controller']

export const PROMISES: readonly Row[] = [
  {
    name: 'An accepted event is never lost',
    how: '202 only after the API server acknowledged the segment; deterministic names; every step can be repeated from it',
    tests: [CHAOS, FLEET, '`restart`: the process ends after > the append'],
    figures: [
      {
        of: 'fleet',
        keys: [
          ...['accepted', 'events', 'lost', 'lostBound95', 'runs', 'versions', 'minutes'],
          ...['runs', 'faults', 'accepted', 'lost', 'lostBound95'].map((key) => `newest.${key}`),
          'seeds',
        ],
      },
    ],
  },
  {
    name: 'At least once, with few duplicates',
    how: 'the outcome is appended right after the attempt; a crash between the two repeats the attempt under the same id; no lane goes on while outcomes cannot be stored',
    tests: [FLEET, '`restart`: the process ends before > the record of a success'],
    figures: [
      {
        of: 'fleet',
        keys: [
          'received.well',
          'received.far from any fault',
          'duplicates.explained',
          'duplicates.unexplained',
          ...FAIL_OVERS.map((kind) => `faults.${kind}.duplicates.most`),
        ],
      },
    ],
  },
  {
    name: 'The same id and the same bytes on each attempt',
    how: 'the payload is an opaque string that is serialized once',
    tests: [
      '`payload`: with deliveryLog > escapes',
      '`payload`: with deliveryLog > numbers that no double holds',
      '`payload`: large ones are the same bytes in retries, and so they are after a restart',
      '`src/webhooks/log/payload`: any JSON comes out as it went in',
    ],
  },
  {
    name: 'Strict order where it is asked for',
    how: 'the head alone is attempted; the next begins when the end of the one before is durable; order is the position in the log',
    tests: [
      FLEET,
      '`ordered`: events arrive one by one in the order in which they were created',
      '`src/webhooks/delivery/hand-over`: *',
    ],
    figures: [
      { of: 'fleet', keys: ['inversions', 'gaps', 'overlaps'] },
      { of: 'histories', keys: ['of hand-overs', 'tests that failed'] },
    ],
  },
  {
    name: 'At most eight attempts, each after its documented wait',
    how: 'the time of the next attempt is in the record of the one before; steps of clocks and new owners do not change it',
    tests: [FLEET, '`src/webhooks/delivery/retry-schedule`: *'],
    figures: [{ of: 'fleet', keys: ['beyondEight', 'waits.compared', 'waits.outside'] }],
  },
  {
    name: 'Nothing comes later than a quarter of a second after a disabling or a deletion was answered',
    how: 'the decision is read again before each attempt; retries in flight stop',
    tests: [
      FLEET,
      '`state`: a pause in mid-retry lets nothing through; enabled again, the delivery goes on where it was',
      '`endpoint-deletion`: also what is on the wire, where the answer is',
      '`test/rest/deletion-in-force`: *',
    ],
    figures: [
      {
        of: 'fleet',
        keys: [
          'disablings',
          'afterDisabling.attempts',
          'afterDisabling.latestMs',
          'deletions',
          'afterDeleting.attempts',
        ],
      },
    ],
  },
  {
    name: 'One endpoint cannot hurt another',
    how: 'a lane for each endpoint with its own concurrency; fair turns; everything has a limit',
    tests: [
      '`concurrency`: an endpoint that hangs does not slow another one',
      '`test/hostile/receivers`: each ends in 20 seconds with an outcome in words, the others get all meanwhile, and no socket stays',
      '`test/hostile/many-subscribers`: arrives at each once',
    ],
    figures: [
      {
        of: 'neighbours',
        keys: [
          'good endpoints',
          'rounds of each',
          'p99 without it, ms',
          'p99 beside it, ms',
          'p99 beside it over that without',
        ],
      },
      {
        of: 'tenth',
        keys: [
          'Segments: p99 without it, ms',
          'Segments: p99 beside it, ms',
          'Segments: rounds of each',
          'Segments: p99 beside it over that without',
          'Segments: p99 beside it over that without, median of rounds and its 95 %',
          'Segments: p99 where somebody else makes as many objects, ms',
          'Segments: p99 beside it over that',
          'Objects: p99 without it, ms',
          'Objects: p99 beside it, ms',
          'Objects: p99 beside it over that without',
          'Objects: p99 where somebody else makes as many objects, ms',
          'Objects: p99 beside it over that',
        ],
      },
      {
        of: 'large-organization',
        keys: ['endpoints', 'p99 of another organization beside them over that without'],
      },
      { of: 'many-subscribers', keys: ['subscribers', 'received', 'received twice'] },
    ],
  },
  {
    name: 'Fail-over within seconds',
    how: 'one Lease for each replica, shards by rendezvous hashing, a handshake of views before a shard moves',
    tests: [
      FLEET,
      '`replicas`: *',
      '`src/ha/shard-histories`: *',
      '`src/webhooks/delivery/kept-hand-over`: *',
    ],
    figures: [
      {
        of: 'fleet',
        keys: [
          'controllers',
          ...FAIL_OVERS.flatMap((kind) =>
            ['times', 'p50', 'p99', 'max'].map((key) => `faults.${kind}.failOverAloneMs.${key}`),
          ),
          'overlaps',
          'leases.requests compared',
          'leases.sent without one',
        ],
      },
      { of: 'histories', keys: ['of shards', 'of shards with the log', 'tests that failed'] },
    ],
  },
  {
    name: 'Several facades are one',
    how: 'a change is answered when each live facade has seen it; of the places of one key in the log the first counts',
    tests: [
      FLEET,
      '`test/rest/facade-replicas`: *',
      '`src/server/facade-histories`: *',
      '`src/webhooks/delivery/unsent-keys`: *',
    ],
    figures: [
      {
        of: 'fleet',
        keys: [
          'facades',
          'keys that were two events',
          'events matched as before an answered change',
          'deliveries too many or too few',
        ],
      },
      { of: 'histories', keys: ['of facades', 'tests that failed'] },
    ],
  },
  {
    name: 'Tests notice a change in what decides',
    how: 'each line of the parts that were tried is changed in every way that Stryker knows; the tests beside it have to fail',
    tests: ['`test/mutation/scores`: *'],
    figures: [
      { of: 'mutation', keys: ['changes', 'caught, %'] },
      { of: 'shard-keeper', keys: ['changes', 'caught, %'] },
    ],
  },
  ...PROMISES_ON_STRANGERS,
  {
    name: 'The API server is treated kindly',
    how: 'lists in pages, bookmarks, resuming, Retry-After, growing waits with jitter',
    tests: [
      '`test/hostile/watch-storm`: *',
      '`test/hostile/facade-storm`: *',
      '`busy-api`: *',
      '`storm`: requests stay few, in all and for each object',
    ],
    figures: [
      {
        of: 'watch-storm',
        keys: ['troubles', 'seconds of each', ...STORM_LISTS],
      },
      { of: 'facade-storm', keys: STORM_LISTS },
      { of: 'large-organization', keys: ['lists at the start', 'lists at the start without them'] },
    ],
  },
]
