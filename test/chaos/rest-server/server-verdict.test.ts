import { expect, test } from 'vitest'
import type { Accepted } from './ledger.ts'
import { judgeServers, type Received, type ServerEvidence } from './server-verdict.ts'

const received = (
  endpoint: string,
  id: string,
  n: number | undefined,
  more: Partial<Received> = {},
): Received => ({
  endpoint,
  id,
  answer: 'ok',
  body: JSON.stringify({ data: n === undefined ? {} : { n } }),
  ...more,
})

const event = (id: string, n: number, more: Partial<Accepted> = {}): Accepted => ({
  operation: 'publish',
  client: 0,
  key: `event-${n}`,
  event: n,
  type: 'usual',
  id,
  ...more,
})
const ping: Accepted = { operation: 'ping', client: 0, key: 'p', endpoint: 'a', id: 'msg_p' }
const again: Accepted = { operation: 'redeliver', client: 0, key: 'r', endpoint: 'a', event: 1, id: 'msg_r' }
const made: Accepted = { operation: 'create', client: 0, key: 'c', id: 'whe_c', secret: 'first' }
const roll: Accepted = {
  operation: 'roll',
  client: 0,
  key: 'k',
  endpoint: 'whe_c',
  id: 'whe_c',
  secret: 'second',
}

/** A run in which every promise was kept: two events, a ping, a redelivery, an endpoint and a rotation. */
const GOOD: ServerEvidence = {
  accepted: [
    event('msg_1', 1),
    event('msg_2', 2, { type: 'ordered' }),
    event('msg_3', 3, { type: 'ordered' }),
    ping,
    again,
    made,
    roll,
  ],
  unknown: new Set([9]),
  received: [
    received('a', 'msg_1', 1),
    received('b', 'msg_1', 1),
    received('o', 'msg_2', 2, { answer: 'failed' }),
    received('o', 'msg_2', 2),
    received('o', 'msg_3', 3),
    received('a', 'msg_p', undefined),
    received('a', 'msg_r', 1),
  ],
  subscribersOf: (type) => (type === 'ordered' ? ['o'] : ['a', 'b']),
  orderedEndpoint: 'o',
  logged: new Map([
    ['a', ['msg_1', 'msg_p', 'msg_r']],
    ['b', ['msg_1']],
    ['o', ['msg_2', 'msg_3']],
  ]),
  stored: {
    endpoints: [{ id: 'whe_c', description: 'c' }],
    secrets: new Map([['whe_c', ['second', 'first']]]),
  },
}

const KEPT = { lost: [], duplicates: [], changed: [], outOfOrder: [], again: 0 }

const without = (index: number) => GOOD.received.filter((_, at) => at !== index)

test.each<{ what: string; evidence: Partial<ServerEvidence>; want: object }>([
  { what: 'that kept every promise', evidence: {}, want: {} },
  {
    what: 'that lost an event at one endpoint',
    evidence: { received: without(1) },
    want: { lost: ['b msg_1 was not received'] },
  },
  {
    what: 'in which an event was only refused',
    evidence: { received: without(3) },
    want: { lost: ['o msg_2 was not received'] },
  },
  {
    what: 'that lost a ping and a redelivery',
    evidence: { received: GOOD.received.slice(0, 5) },
    want: { lost: ['a msg_p was not received', 'a msg_r was not received'] },
  },
  {
    what: 'whose log lacks a delivery',
    evidence: { logged: new Map([...GOOD.logged, ['b', []]]) },
    want: { lost: ['b msg_1 is not in the log'] },
  },
  {
    what: 'that lost an endpoint',
    evidence: { stored: { ...GOOD.stored, endpoints: [] } },
    want: { lost: ['whe_c is not there'] },
  },
  {
    what: 'that lost a roll',
    evidence: { stored: { ...GOOD.stored, secrets: new Map([['whe_c', ['first']]]) } },
    want: { lost: ['a secret that a roll of whe_c has shown is not there'] },
  },
  {
    what: 'that made a second event under one key',
    evidence: { received: [...GOOD.received, received('a', 'msg_4', 1)] },
    want: { duplicates: ['a msg_4 came, and nobody was told of it'] },
  },
  {
    what: 'that made a second ping',
    evidence: { received: [...GOOD.received, received('a', 'msg_4', undefined)] },
    want: { duplicates: ['a msg_4 came, and nobody was told of it'] },
  },
  {
    what: 'in which an event came that was not answered',
    evidence: { received: [...GOOD.received, received('a', 'msg_9', 9), received('b', 'msg_9', 9)] },
    want: {},
  },
  {
    what: 'in which one that was not answered came as two',
    evidence: { received: [...GOOD.received, received('a', 'msg_9', 9), received('b', 'msg_8', 9)] },
    want: { duplicates: ['event 9 came as msg_9 and as msg_8'] },
  },
  {
    what: 'whose log lists a delivery twice',
    evidence: { logged: new Map([...GOOD.logged, ['b', ['msg_1', 'msg_1']]]) },
    want: { duplicates: ['b msg_1 is listed twice'] },
  },
  {
    what: 'that made a second endpoint',
    evidence: {
      stored: { ...GOOD.stored, endpoints: [...GOOD.stored.endpoints, { id: 'whe_d', description: 'c' }] },
    },
    want: { duplicates: ['whe_d is there under c, and nobody was told of it'] },
  },
  {
    what: 'that rolled twice',
    evidence: { stored: { ...GOOD.stored, secrets: new Map([['whe_c', ['third', 'second', 'first']]]) } },
    want: { duplicates: ['whe_c has 3 secrets'] },
  },
  {
    what: 'that changed a body in a redelivery',
    evidence: { received: [...without(6), received('a', 'msg_r', 1, { body: '{"data":{"n":1,"x":0}}' })] },
    want: { changed: ['event 1 came with two bodies'] },
  },
  {
    what: 'that turned the order of a client round',
    evidence: { received: [received('o', 'msg_3', 3), ...GOOD.received] },
    want: { outOfOrder: ['event 3 came before the one before it'], again: 1 },
  },
  {
    what: 'that delivered one again, which at least once allows',
    evidence: { received: [...GOOD.received, received('a', 'msg_1', 1)] },
    want: { again: 1 },
  },
])('the verdict on a run $what', ({ evidence, want }) => {
  expect(judgeServers({ ...GOOD, ...evidence })).toEqual({ ...KEPT, ...want })
})
