/** What receivers, networks, accounts and time do to Davit: the second half of the catalogue. */
import { FLEET } from './chaos-tests.ts'
import type { Row } from './row.ts'

/** F25 to F46, in their order. */
export const FAILURES_OUTSIDE: readonly Row[] = [
  {
    name: 'F25: cut off from all receivers',
    how: 'retries; five exhausted over 24 hours disable, never a shorter outage',
    tests: [
      '`auto-disable`: five within minutes do not disable, nor does time that passes; the next exhausted one does',
      '`test/hostile/long-outage`: they get all that was published meanwhile, each once, never more at a time than they asked for, and none is disabled',
    ],
    figures: [{ of: 'long-outage', keys: ['hours', 'endpoints', 'delivered', 'endpoints disabled'] }],
  },
  {
    name: 'F26: DNS in trouble, or slow',
    how: 'a failed attempt; names that are slow keep no other waiting',
    tests: [
      '`src/net/resolver`: 200 names whose server hangs do not keep others waiting',
      '`src/webhooks/sender/webhook-sender-network`: names that do not resolve, and name servers in trouble, are told apart',
    ],
  },
  {
    name: 'F27: a name that moves from a public address to another',
    how: 'judged at each connection; what was judged is dialled',
    tests: ['`test/hostile/addresses`: behind a name that showed an allowed address before, at each turn'],
    figures: [{ of: 'addresses', keys: ['rebindings', 'connections to forbidden addresses'] }],
  },
  {
    name: 'F28: a connection that is refused or never comes',
    how: 'a failed attempt; two and a half seconds for each of several addresses',
    tests: [
      '`attempts`: refused, reset before an answer, and reset in the body of a 200',
      '`src/webhooks/sender/webhook-sender-network`: where the first address refuses, the next one is tried',
      '`src/webhooks/sender/silent-address`: *',
    ],
    figures: [{ of: 'receivers', keys: ['resets before the answer'] }],
  },
  {
    name: 'F29: bad certificates, old TLS, a handshake that hangs',
    how: 'a failed attempt in words; memory stays',
    tests: [
      '`src/webhooks/sender/webhook-sender-tls`: *',
      '`test/hostile/receivers`: each ends in 20 seconds with an outcome in words, the others get all meanwhile, and no socket stays',
    ],
    figures: [
      {
        of: 'certificates',
        keys: [
          'kinds of certificates',
          'attempts',
          'of them failed by the certificate',
          'heap that an attempt leaves, bytes',
          'resident that an attempt leaves, bytes',
        ],
      },
      { of: 'receivers', keys: ['kinds of receivers', 'longest attempt, ms'] },
    ],
  },
  {
    name: 'F30: slow headers, a flood of 1xx, a body in drops',
    how: 'one deadline of 20 seconds for all of it',
    tests: [
      '`src/webhooks/sender/webhook-sender-limits`: $name ends at the deadline',
      '`test/hostile/receivers`: each ends in 20 seconds with an outcome in words, the others get all meanwhile, and no socket stays',
    ],
    figures: [
      {
        of: 'receivers',
        keys: [
          'that hang to the deadline',
          'longest attempt, ms',
          'good events, all received before those ended',
        ],
      },
    ],
  },
  {
    name: 'F31: a huge body, a gzip bomb, many encodings',
    how: '16 KB are read, nothing is unpacked',
    tests: [
      '`src/webhooks/sender/webhook-sender-limits`: of 200 MB of body 16 KB are read, the rest is not',
      '`src/webhooks/sender/webhook-sender-hostile`: compressed answers are not unpacked',
    ],
    figures: [{ of: 'soak', keys: ['heap slope, MB/h', 'most resident, MB'] }],
  },
  {
    name: 'F32: a flood of headers',
    how: 'a failed attempt at 16 KB',
    tests: ['`src/webhooks/sender/webhook-sender-hostile`: $name is a failure of the protocol'],
    figures: [{ of: 'receivers', keys: ['floods with headers', 'sends one endless header'] }],
  },
  {
    name: 'F33: redirects',
    how: 'a failed attempt, never followed',
    tests: [
      '`src/webhooks/sender/sender`: a redirect with %d is not followed',
      '`test/hostile/addresses`: behind a redirect of any kind',
    ],
    figures: [{ of: 'addresses', keys: ['redirects', 'connections to forbidden addresses'] }],
  },
  {
    name: 'F34: a 2xx whose body breaks off',
    how: 'a failed attempt with its code; 16 KB of a body are enough',
    tests: [
      '`attempts`: refused, reset before an answer, and reset in the body of a 200',
      '`attempts`: 16 KB of a body are enough of a 2xx, even when it never ends',
    ],
    figures: [{ of: 'receivers', keys: ['resets in the body', 'ends in the body'] }],
  },
  {
    name: 'F35: 410 from a receiver',
    how: 'a failed attempt like any other (interface)',
    tests: [
      '`attempts`: every other status is a failed attempt: redirects are not followed, 410 and Retry-After mean nothing special',
    ],
    figures: [{ of: 'receivers', keys: ['is gone (410)'] }],
  },
  {
    name: 'F36: Retry-After from a receiver',
    how: 'means nothing; the schedule is the documented one',
    tests: [
      '`attempts`: every other status is a failed attempt: redirects are not followed, 410 and Retry-After mean nothing special',
      '`src/webhooks/delivery/retry-schedule`: every time is a whole number of milliseconds, and none is before the end of the attempt, at any scale',
    ],
    figures: [
      { of: 'receivers', keys: ['asks to wait for 30,000 years'] },
      { of: 'fleet', keys: ['waits.compared', 'waits.outside'] },
    ],
  },
  {
    name: 'F37: a receiver is away for hours',
    how: 'all is delivered that the schedule spans, four hours at least and almost nine at most, 21 minutes for the head of an ordered endpoint; the rest is told of, and comes when it is asked for; in order where asked; never more at a time than `concurrency`',
    tests: [
      '`test/hostile/longer-outage`: after six hours the rest comes, in order where asked, and what ended meanwhile comes when it is asked for',
      '`test/hostile/long-outage`: they get all that was published meanwhile, each once, never more at a time than they asked for, and none is disabled',
    ],
    figures: [
      { of: 'long-outage', keys: ['hours', 'deliveries', 'delivered', 'most at a time'] },
      {
        of: 'longer-outage',
        keys: [
          'hours',
          'events',
          'delivered afterwards',
          'delivered afterwards in order',
          'ended meanwhile',
          'ended meanwhile where order was asked',
          'delivered again when asked for',
        ],
      },
    ],
  },
  {
    name: 'F38: one endpoint or organization is slow',
    how: 'a lane for each, fair turns: the others feel little',
    tests: [
      '`concurrency`: an endpoint that hangs does not slow another one',
      '`concurrency`: with one attempt at a time for all, endpoints take turns',
    ],
    figures: [
      { of: 'neighbours', keys: ['good endpoints', 'p99 beside it over that without'] },
      {
        of: 'tenth',
        keys: ['Segments: p99 beside it over that without', 'Objects: p99 beside it over that without'],
      },
    ],
  },
  {
    name: 'F39: all come back at once',
    how: 'waits are spread over their upper half; a limit on attempts under way',
    tests: [
      '`schedule`: the waits of many deliveries spread over the whole upper half of the documented wait',
      '`concurrency`: up to spec.concurrency deliveries of an endpoint are under way at a time, never more',
      '`concurrency`: with one attempt at a time for all, endpoints take turns',
    ],
    figures: [{ of: 'long-outage', keys: ['delivered', 'most at a time'] }],
  },
  {
    name: 'F40: the head of an ordered lane is stuck',
    how: 'it holds that endpoint alone, until it is exhausted',
    tests: ['`ordered`: a stuck head holds later ones until it is exhausted, and then they go on'],
    figures: [{ of: 'fleet', keys: ['inversions', 'gaps'] }],
  },
  {
    name: 'F41: AWS throttles, refuses, or leaves open what it did',
    how: 'waits; the condition says the kind, never the value; a version is compared',
    tests: [
      '`src/credentials/aws/shared-account`: *',
      '`src/credentials/aws/failures`: %s is told and repeated as the table says',
      '`credential-rules`: that AWS does not take yet > is stored once it does, and it is said meanwhile what AWS says: $what',
      '`test/canary/canary`: finds no secret anywhere but in the account, whatever AWS answers and whenever a process is killed',
    ],
    figures: [{ of: 'credentials', keys: ['credentials.retriesPerPut', 'credentials.stored'] }],
  },
  {
    name: 'F42: told to end under load',
    how: 'what is under way ends, outcomes are stored, the Lease is given back',
    tests: [
      '`test/rest/restart`: told to end, it answers what runs, takes no connection more, and ends with 0',
      '`replicas`: *',
      FLEET,
    ],
    figures: [{ of: 'fleet', keys: ['faults.roll controllers.count', 'faults.roll facades.count', 'lost'] }],
  },
  {
    name: 'F43: versions change with deliveries pending',
    how: 'CRDs older and newer than the code: nothing ends, and what is published arrives; all processes are changed to another version and back under load, with retries pending: nothing is lost, and order stays',
    tests: [
      '`test/hostile/other-crds`: $name, from the start and then exchanged for those that ship',
      '`poison-log`: of lines that are none, or that a newer version wrote, is told of; its delivery is sent (again)',
    ],
    figures: [
      {
        of: 'other-crds',
        keys: [
          'older: events',
          'older: received',
          'older: process exits',
          'newer: received',
          'newer: process exits',
        ],
      },
      {
        of: 'fleet',
        keys: ['faults.change version.count', 'faults.change version.duplicates.most', 'lost', 'inversions'],
      },
    ],
  },
  {
    name: 'F44: memory that grows',
    how: 'every queue, body and cache has a limit',
    tests: [
      '`src/webhooks/sender/webhook-sender-limits`: a long run of hostile receivers leaves neither memory nor sockets behind',
    ],
    figures: [
      {
        of: 'soak',
        keys: [
          'minutes',
          'heap slope, MB/h',
          'heap at the end, MB',
          'facade: heap slope, MB/h',
          'facade: heap at the end, MB',
          'good events',
          'good events received',
        ],
      },
    ],
  },
  {
    name: 'F45: an endpoint that is Davit itself',
    how: 'its networks are not public; where they are allowed, nobody is let in without a key',
    tests: ['`test/hostile/loop`: each event makes one delivery to each, which ends after eight refusals'],
    figures: [{ of: 'loops', keys: ['deliveries of one event', 'answered with', 'events that came of it'] }],
  },
  {
    name: 'F46: whoever reads the log stands still',
    how: 'deliveries go on, lines are dropped, the process ends when it is told to',
    tests: [
      '`test/hostile/full-stdout`: it becomes ready, delivers, and ends with 0',
      '`src/lib/system-log`: a reader of standard output that stands still does not stop the program',
    ],
    figures: [{ of: 'full-stdout', keys: ['events', 'delivered', 'exit code'] }],
  },
]
