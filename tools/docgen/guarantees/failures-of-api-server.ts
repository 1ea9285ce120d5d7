/** Failures of the API server, of its store, and of what they answer: F5 to F20, in their order. */
import { FLEET } from './chaos-tests.ts'
import type { Row } from './row.ts'

export const FAILURES_OF_API_SERVER: readonly Row[] = [
  {
    name: 'F5: the API server starts anew',
    how: 'watches come back without a list, and miss nothing',
    tests: ['`reflector-faults`: comes back after the server was away, without a list'],
    figures: [
      { of: 'fleet', keys: ['faults.API server restart.count', 'lost'] },
      { of: 'watch-storm', keys: ['cut ten times a second: lists of one kind a minute, most'] },
    ],
  },
  {
    name: 'F6: the API server is away for long',
    how: 'publishing is answered with 503; sends pause when outcomes cannot be stored',
    tests: [
      '`test/rest/refusals`: an API server that > $what is nothing that a client is told about',
      '`test/rest/suspended-facade`: one whose Lease cannot be written refuses publishes before others stop waiting for it',
      '`outage`: nothing new is sent once outcomes could not be stored for five seconds',
      '`outage`: everything that was acknowledged is delivered, once and in order where asked',
    ],
    figures: [
      { of: 'fleet', keys: ['longest outage of the API server, s', 'lost'] },
      {
        of: 'fleet',
        keys: ['faults.etcd restart.count', 'faults.API server restart.count', 'accepted', 'lost'],
      },
    ],
  },
  {
    name: 'F7: the API server takes connections and says nothing',
    how: 'each call has a deadline; without its Lease a replica stops sending',
    tests: [
      '`src/kube/transport`: ends at its deadline: no answer, half an answer, or no connection',
      '`reflector-faults`: resumes a watch that went silent',
      '`src/ha/coordinator`: a write that fails ends what it may do in time, and goes on when it is taken again',
    ],
    figures: [{ of: 'fleet', keys: ['faults.hold.count', 'faults.deaf.count', 'overlaps', 'lost'] }],
  },
  {
    name: 'F8: compaction, 410 Gone',
    how: 'one list with growing waits; deletions that nobody told are found',
    tests: [
      '`reflector`: lists again when etcd was compacted while it was cut off, and finds what it missed',
      '`reflector-faults`: lists again when its version is answered with 410, and finds a deletion that nobody announced',
      '`test/hostile/watch-storm`: watches > answered with 410',
    ],
    figures: [
      { of: 'fleet', keys: ['faults.etcd compaction.count', 'lost'] },
      { of: 'watch-storm', keys: ['answered with 410: lists of one kind a minute, most'] },
    ],
  },
  {
    name: 'F9: a watch closes, breaks, or says nothing more',
    how: 'it resumes where it was, with growing waits; silence is noticed; a full list compares now and then; a facade without watches accepts nothing after five seconds',
    tests: [
      '`reflector`: notices a connection that died without a word',
      '`reflector-faults`: goes on where a stream was cut in the middle of a line',
      '`test/hostile/watch-storm`: watches > cut ten times a second',
      '`test/hostile/facade-storm`: watches of a facade > cut ten times a second',
    ],
    figures: [
      { of: 'fleet', keys: ['faults.cut.count', 'lost'] },
      {
        of: 'watch-storm',
        keys: [
          'cut ten times a second: watches of a kind a minute',
          'cut ten times a second: events received',
        ],
      },
      { of: 'facade-storm', keys: ['cut ten times a second: events accepted'] },
    ],
  },
  {
    name: 'F10: a watch forgets, repeats or reorders',
    how: 'the end is the same',
    tests: [
      '`src/kube/reflector-histories`: never goes back, and agrees with the store after the next full list',
      '`reflector-faults`: finds an event that never came by the next full comparison, while the watch goes on',
    ],
    figures: [{ of: 'histories', keys: ['of watches', 'tests that failed'] }],
  },
  {
    name: 'F11: a second API server that is behind',
    how: 'nothing is done on an older version than that of the last write',
    tests: [
      '`stale-view`: an endpoint that Davit has disabled gets nothing, before the watch says so and while it catches up',
      '`src/kube/reflector-set-back`: finds out by a comparison that the store was set back while its watch stayed open',
      '`test/hostile/two-api-servers`: *',
      FLEET,
    ],
    // Each process has a way to the API server of its own, on which what is told is held back while others hear it.
    figures: [
      {
        of: 'fleet',
        keys: ['faults.hold.count', 'faults.deaf.count', 'lost', 'overlaps', 'afterDisabling.latestMs'],
      },
      {
        of: 'two-api-servers',
        keys: [
          'behind, measured, ms',
          'changes',
          'events matched as before an answered change',
          'keyed events',
          'received of them',
          'received twice',
          'all there after it has died, s',
        ],
      },
    ],
  },
  {
    name: 'F12: a conflict on a status',
    how: 'read again and written again; an end stays an end',
    tests: [
      '`src/webhooks/delivery/status`: $state stays as it is, whatever is still reported of it',
      '`storm`: everything is delivered, once and in order where asked, and nothing is attempted more than eight times',
    ],
    figures: [{ of: 'fleet', keys: ['beyondEight', 'duplicates.unexplained'] }],
  },
  {
    name: 'F13: what is to be made is there already',
    how: 'the same counts as made, another one is a conflict',
    tests: [
      '`src/webhooks/log/kubernetes-store`: *',
      '`endpoint-deletion`: inherits nothing: no delivery, key, count, request, nor what could be delivered again',
    ],
    figures: [{ of: 'fleet', keys: ['keys that were two events', 'deliveries too many or too few'] }],
  },
  {
    name: 'F14: 429 with Retry-After from the API server',
    how: 'obeyed, for calls, lists and watches',
    tests: ['`busy-api`: *', '`test/hostile/watch-storm`: watches > answered with 429'],
    figures: [
      {
        of: 'watch-storm',
        keys: [
          'answered with 429: watches of a kind a minute',
          'answered with 429: lists of one kind a minute, most',
        ],
      },
    ],
  },
  {
    name: 'F15: a write whose fate is unknown',
    how: 'names are deterministic, so that it is read back or repeated',
    tests: [
      '`rare-calls`: an outcome that was stored, and whose answer was lost, is read back and not stored twice',
      '`restart`: the process ends after > the append',
    ],
    figures: [
      { of: 'fleet', keys: ['faults.cut.count', 'faults.hold.count', 'duplicates.unexplained', 'lost'] },
    ],
  },
  {
    name: 'F16: etcd is full, a quota is reached',
    how: 'nothing is accepted; nothing is lost; an Event says so',
    tests: [
      '`quota`: publishing waits and loses nothing',
      '`quota`: successes are delivered all the same, and an Event says what is not shown',
      FLEET,
    ],
    figures: [{ of: 'fleet', keys: ['faults.no space in etcd.count', 'accepted', 'lost'] }],
  },
  {
    name: 'F17: an object beyond the limit',
    how: '413; what was taken is delivered',
    tests: [
      '`test/rest/raw-limits`: of 256 KiB is taken, and of one byte more is not',
      '`payload`: with deliveryLog > 256 KiB',
    ],
  },
  {
    name: 'F18: tokens and certificates are renewed',
    how: 'read again without a start',
    tests: [
      '`renewed-tokens`: both go on with the new ones without a start, and nothing is lost',
      '`src/kube/renewed-credentials`: *',
      '`src/kube/transport-credentials`: *',
    ],
    figures: [
      {
        of: 'renewed-tokens',
        keys: [
          'tokens that ended',
          'refusals that logs tell of',
          'answered with 503 meanwhile',
          'accepted',
          'received',
          'processes that ended',
        ],
      },
    ],
  },
  {
    name: 'F19: rights in one namespace are taken away',
    how: 'that organization suffers, and no other',
    tests: ['`test/hostile/lost-rights`: only that one lacks what needed them, and both get their events'],
    figures: [{ of: 'lost-rights', keys: ['events of the other', 'of them received'] }],
  },
  {
    name: 'F20: a namespace is deleted under load',
    how: 'nothing is sent once its endpoints are gone; nothing of it stays; the others miss nothing',
    tests: [
      '`test/hostile/deleted-namespace`: nothing is sent once its endpoints are gone, and the neighbour gets everything',
    ],
    figures: [
      {
        of: 'deleted-namespace',
        keys: [
          'requests to it before',
          'requests to it after its endpoints were gone',
          'events of the neighbour',
          'of them received',
        ],
      },
    ],
  },
]
