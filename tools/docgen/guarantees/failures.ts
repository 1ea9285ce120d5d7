/** The catalogue of failures: what may go wrong around Davit, what it does then, and what proves it. */
import { CHAOS, FLEET } from './chaos-tests.ts'
import { FAILURES_OF_API_SERVER } from './failures-of-api-server.ts'
import { FAILURES_OUTSIDE } from './failures-outside.ts'
import type { Row } from './row.ts'

/** F1 to F4: of the process. */
const OF_PROCESS: readonly Row[] = [
  {
    name: 'F1: killed at any point',
    how: 'no event is lost; what comes again has its id',
    tests: [
      CHAOS,
      '`src/webhooks/delivery/crash-anywhere`: killed once > %s any of its calls is done, it goes on',
      '`src/webhooks/delivery/crash-anywhere`: killed several times > it goes on, whenever that is',
    ],
    figures: [
      { of: 'fleet', keys: ['accepted', 'lost'] },
      {
        of: 'kills',
        keys: [
          'kills',
          'deliveries accepted',
          'lost',
          'received again, a kill',
          'received again, most of one kill',
          'received again, without a kill',
          'promises broken',
        ],
      },
    ],
  },
  {
    name: 'F2: a crash between the answer and its record',
    how: 'sent again under the same id, with a fresh stamp',
    tests: [
      '`restart`: the process ends before > the record of a success',
      '`delivery`: a failed attempt is repeated under the same id, with the same bytes and a fresh stamp',
    ],
    figures: [{ of: 'fleet', keys: ['duplicates.explained', 'duplicates.unexplained'] }],
  },
  {
    name: 'F3: an object that makes no sense',
    how: 'it is told of; the others go on, and the process lives',
    tests: ['`test/hostile/poisoned`: whatever is stored while they run, and is there when they start'],
    figures: [
      {
        of: 'poisoned-objects',
        keys: ['odd objects stored', 'process exits', 'good events', 'of them received'],
      },
    ],
  },
  {
    name: 'F4: a delivery that ends the sender',
    how: 'set aside when the process that began it, and the two that went on with it, have died of it, with what was open beside it each time; from then on begun apart from the others, and written down before',
    tests: [
      '`deadly-delivery`: is set aside after three ends, and all others arrive',
      '`log-edges`: a delivery that two starts did not survive is attempted minutes later, and its endpoint says so',
    ],
    figures: [
      {
        of: 'deadly-delivery',
        keys: [
          'ends before it was set aside',
          'ends until all others had arrived',
          'others',
          'others that arrived',
        ],
      },
    ],
  },
]

/** F21 to F24: a process that stands still, or whose clock does not, or that is cut off. */
const OF_TIME: readonly Row[] = [
  {
    name: 'F21: suspended for a minute',
    how: 'nothing is sent after the return before the Lease was renewed; no reordering',
    tests: [FLEET],
    figures: [
      {
        of: 'fleet',
        keys: [
          'faults.suspend controller.count',
          'inversions',
          'overlaps',
          'leases.requests compared',
          'leases.sent without one',
        ],
      },
    ],
  },
  {
    name: 'F22: the event loop stands still',
    how: 'as when it is suspended; an answer that came meanwhile counts',
    tests: [
      '`stalled-loop`: another one goes on with what is its own, and once it runs again it sends nothing that it does not own',
      '`src/ha/fence`: *',
      '`src/webhooks/sender/stood-still`: an answer that came while the process stood still counts, although the deadline has passed',
    ],
    figures: [{ of: 'fleet', keys: ['faults.pause controller.count', 'inversions', 'overlaps'] }],
  },
  {
    name: 'F23: the wall clock jumps',
    how: 'no burst, no stall, nothing is deleted early, and no Idempotency-Key ends early',
    tests: [
      '`wall-clock`: *',
      '`test/rest/clock-ahead`: an endpoint is made once, and an event published once, whichever facade is asked again',
      '`src/webhooks/log/steady-time`: a clock that is set a day ahead and mended within the hour makes nothing older',
    ],
    figures: [{ of: 'fleet', keys: ['faults.clock step.count', 'waits.outside', 'inversions', 'lost'] }],
  },
  {
    name: 'F24: cut off from the API server alone',
    how: 'sends stop within seconds',
    tests: ['`outage-unseen`: a disabled endpoint gets nothing beyond that', FLEET],
    figures: [
      {
        of: 'fleet',
        keys: [
          'faults.cut.count',
          'faults.deaf.count',
          'leases.requests compared',
          'leases.sent without one',
        ],
      },
    ],
  },
]

/** F1 to F46. */
export const FAILURES: readonly Row[] = [
  ...OF_PROCESS,
  ...FAILURES_OF_API_SERVER,
  ...OF_TIME,
  ...FAILURES_OUTSIDE,
]
