import { describe, expect, test } from 'vitest'
import { DeliveryWatches, KINDS } from '../../../test/support/delivery-watches.ts'
import { DeliveryWorld, type WorldLine } from '../../../test/support/delivery-world.ts'
import { fc } from '../../../test/support/fast-check.ts'
import { type ReadMessage, StreamReader } from '../../../test/support/stream-client.ts'
import { MessageBuffer } from './message-buffer.ts'
import { KNOWN_AT_START_MS, messagesOfChanges } from './messages.ts'
import { furthest, parseStreamPosition, START } from './position.ts'
import { Subscriber } from './subscriber.ts'

/** What clients of several servers read, whatever happens and however the watches of each server lag. */

const ORGANIZATIONS = ['org-0', 'org-1']
const SERVERS = 2
/** Of the world. */
const NOW = Date.UTC(2026, 0, 31, 12)
const UNLIMITED = 100 * 1024 * 1024

/**
 * Its watches may lag by any time, but that of the objects is never ahead of those of the log: a client that comes from a server where it
 * is, by more than the wait before a retry, may read once more that a delivery is to be retried.
 */
class Server {
  readonly buffer: MessageBuffer
  readonly watches: DeliveryWatches

  constructor(world: DeliveryWorld, maxBytes: number, now = NOW) {
    this.buffer = new MessageBuffer({ maxBytes, onNews: () => undefined })
    this.watches = new DeliveryWatches(world, 10_000, messagesOfChanges(this.buffer, { now: () => now }))
  }

  tell(kind: (typeof KINDS)[number], count: number, twice: boolean): void {
    if (kind === 'objects') this.#tellLog()
    this.watches.tell(kind, count, twice)
  }

  list(kind: (typeof KINDS)[number], broken: boolean): void {
    if (kind === 'objects') this.#tellLog()
    this.watches.list(kind, broken)
  }

  #tellLog(): void {
    for (const kind of ['segments', 'outcomes'] as const)
      this.watches.tell(kind, Number.POSITIVE_INFINITY, false)
  }

  start(): this {
    this.watches.readClaims()
    for (const kind of KINDS) this.watches.list(kind, false)
    return this
  }
}

class Client {
  readonly organization: string
  readonly messages: ReadMessage[] = []
  readonly ids: string[] = []
  wasLost = false
  #lastId: string | undefined
  #subscriber: Subscriber

  constructor(organization: string, { buffer }: Server) {
    this.organization = organization
    this.#subscriber = new Subscriber(buffer, organization)
    this.#lastId = this.#subscriber.position
  }

  /** Continues after the last message that it has, or starts again if it may have missed some. */
  connect({ buffer }: Server): void {
    const from = parseStreamPosition(this.#lastId ?? '')
    this.#subscriber = new Subscriber(buffer, this.organization, from)
    if (!this.#subscriber.isBehind) return
    this.wasLost = true
    this.#subscriber = new Subscriber(buffer, this.organization)
    this.#lastId = this.#subscriber.position
  }

  /** @param part of the text that arrives before the connection breaks; 1 if it does not */
  read(server: Server, length: number, part = 1): void {
    const subscriber = this.#subscriber
    if (subscriber.isOver || subscriber.isBehind) {
      this.connect(server)
      return
    }
    const reader = new StreamReader()
    const text = subscriber.take(length)
    reader.push(text.slice(0, Math.ceil(text.length * part)))
    this.messages.push(...reader.messages)
    this.ids.push(...reader.ids)
    this.#lastId = reader.lastId || this.#lastId
    if (part < 1) this.connect(server)
    else if (text === '') this.#lastId = subscriber.position
  }

  /** What the last message of each delivery says. */
  states(): Map<string, { status: unknown; attempts: unknown }> {
    const changes = this.messages.filter(({ type }) => type === 'delivery')
    return new Map(
      changes.map(({ data }) => [
        `${data.endpointId} ${data.deliveryId}`,
        { status: data.status, attempts: data.attemptCount },
      ]),
    )
  }
}

const number = fc.nat({ max: 1000 })
const delivery = fc.record({ endpoint: number, script: number, older: fc.nat({ max: 20 }) })
const what = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('accept' as const),
      deliveries: fc.array(delivery, { minLength: 1, maxLength: 4 }),
      own: fc.boolean(),
      at: number,
    }),
  },
  { weight: 12, arbitrary: fc.record({ do: fc.constant('advance' as const), which: number }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('write' as const),
      kind: fc.constantFrom(
        'acceptAgain' as const,
        'handOver' as const,
        'writeLate' as const,
        'repeat' as const,
      ),
      which: number,
    }),
  },
  {
    weight: 10,
    arbitrary: fc.record({
      do: fc.constant('tell' as const),
      at: number,
      kind: fc.constantFrom(...KINDS),
      count: fc.integer({ min: 1, max: 8 }),
      twice: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('list' as const),
      at: number,
      kind: fc.constantFrom(...KINDS),
      broken: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('restart' as const), at: number }) },
  {
    weight: 10,
    arbitrary: fc.record({
      do: fc.constant('read' as const),
      client: number,
      length: fc.constantFrom(1, 500, 5000),
      part: fc.constantFrom(1, 1, 1, 0.3, 0.7),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('move' as const), client: number, at: number }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('join' as const), at: number, which: number }) },
)
type What = typeof what extends fc.Arbitrary<infer T> ? T : never

class Run {
  readonly world = new DeliveryWorld(3)
  readonly servers: Server[]
  readonly clients: { client: Client; at: number }[]
  readonly #maxBytes: number

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
    this.servers = Array.from({ length: SERVERS }, () => new Server(this.world, maxBytes))
    this.clients = ORGANIZATIONS.flatMap((organization) =>
      this.servers.map((server, at) => ({ client: new Client(organization, server), at })),
    )
  }

  happen(one: What): void {
    if (one.do === 'accept') this.#accept(one.deliveries, one.own ? this.#server(one.at) : undefined)
    else if (one.do === 'advance') this.world.advance(one.which)
    else if (one.do === 'write') this.world[one.kind](one.which)
    else if (one.do === 'tell') this.#server(one.at).tell(one.kind, one.count, one.twice)
    else if (one.do === 'list') this.#server(one.at).list(one.kind, one.broken)
    else if (one.do === 'restart') this.#restart(one.at % SERVERS)
    else if (one.do === 'join') this.#join(one.which, one.at % SERVERS)
    else {
      const reading = this.clients[one.client % this.clients.length]
      if (!reading) return
      if (one.do === 'move') {
        reading.at = one.at % SERVERS
        reading.client.connect(this.#server(reading.at))
      } else reading.client.read(this.#server(reading.at), one.length, one.part)
    }
  }

  /** Everything is told, and read. */
  finish(): void {
    this.world.settleDuplicates()
    for (const { watches } of this.servers) watches.tellAll()
    for (const { client, at } of this.clients) {
      client.connect(this.#server(at + 1))
      for (let left = 2; left > 0; left -= 1) client.read(this.#server(at + 1), UNLIMITED)
    }
  }

  #server(number: number): Server {
    return this.servers[number % SERVERS] as Server
  }

  #accept(deliveries: Parameters<DeliveryWorld['accept']>[0], own: Server | undefined): void {
    const segment = this.world.accept(deliveries)
    const place = { segment: segment.name, version: segment.version, firstDelivery: 0 }
    const events = segment.deliveries.map(({ event, endpoint }) => ({
      event: { ...event, payload: '{}' },
      targets: [endpoint],
    }))
    own?.watches.index.appended(place, events)
  }

  #restart(at: number): void {
    this.servers[at]?.buffer.close()
    this.servers[at] = new Server(this.world, this.#maxBytes).start()
  }

  #join(which: number, at: number): void {
    const organization = ORGANIZATIONS[which % ORGANIZATIONS.length] ?? ''
    this.clients.push({ client: new Client(organization, this.#server(at)), at })
  }
}

/** Neither does an id come twice nor an event, and no position goes back. */
function expectOrder({ ids, messages }: Client): void {
  expect(new Set(ids).size).toBe(ids.length)
  const events = messages.filter(({ type }) => type === 'event').map(({ data }) => data.eventId)
  expect(new Set(events).size).toBe(events.length)
  let before = START
  for (const id of ids) {
    const position = parseStreamPosition(id)
    expect(position && furthest(before, position)).toEqual(position)
    before = position ?? before
  }
}

/** Each delivery that has changed, as it is in the end. */
function changedOf(world: DeliveryWorld, organization: string): Map<string, WorldLine> {
  const changed = new Map<string, WorldLine>()
  for (const endpoint of world.endpoints) {
    if (endpoint.namespace !== organization) continue
    for (const line of world.linesOf(endpoint))
      if (line.state !== 'pending' || line.attempts > 0)
        changed.set(`whe_${endpoint.name} msg_${line.id}`, line)
  }
  return changed
}

/** What a client knows of a delivery is what is so in the end. */
function expectStates(client: Client, world: DeliveryWorld): void {
  const states = client.states()
  for (const [key, { state, attempts }] of changedOf(world, client.organization)) {
    const found = states.get(key)
    if (found) expect([key, found]).toEqual([key, { status: state, attempts }])
  }
}

/** A client that was there from the beginning knows of all deliveries that have changed, and of all events. */
function expectAll(client: Client, world: DeliveryWorld): void {
  const states = client.states()
  const unknown = [...changedOf(world, client.organization).keys()].filter((key) => !states.has(key))
  const events = new Set(client.messages.map(({ data }) => data.eventId))
  const ofOrganization = world
    .eventsInLog()
    .filter(({ endpoint }) => endpoint.namespace === client.organization)
  unknown.push(...ofOrganization.map(({ id }) => `msg_${id}`).filter((id) => !events.has(id)))
  expect(unknown).toEqual([])
}

const history = fc.array(what, { minLength: 10, maxLength: 150 })

test('clients miss nothing and read nothing twice, wherever they continue', () => {
  fc.assert(
    fc.property(history, (all) => {
      const run = new Run(UNLIMITED)
      const first = run.clients.map(({ client }) => client)
      for (const one of all) run.happen(one)
      run.finish()
      for (const { client } of run.clients) {
        expect(client.wasLost).toBe(false)
        expectOrder(client)
        expectStates(client, run.world)
      }
      for (const client of first) expectAll(client, run.world)
    }),
    { numRuns: 200 },
  )
})

test('with little memory, clients either miss nothing or learn that they have', () => {
  fc.assert(
    fc.property(history, fc.integer({ min: 2000, max: 20_000 }), (all, maxBytes) => {
      const run = new Run(maxBytes)
      const first = run.clients.map(({ client }) => client)
      for (const one of all) {
        run.happen(one)
        for (const { buffer } of run.servers) expect(buffer.bytes).toBeLessThanOrEqual(maxBytes)
      }
      run.finish()
      for (const { client } of run.clients) if (!client.wasLost) expectOrder(client)
      for (const client of first) if (!client.wasLost) expectAll(client, run.world)
    }),
    { numRuns: 100 },
  )
})

/** A delivery whose attempt fails, and which has an object then. */
const FAILS = { endpoint: 0, script: 2, older: 0 }

describe('a client that changes to a server that has just started', () => {
  test('keeps the state that an object has, although the log has the first attempt twice', () => {
    const world = new DeliveryWorld(1)
    const early = new Server(world, UNLIMITED)
    const client = new Client('org-0', early)
    world.accept([FAILS])
    for (let steps = 0; steps < 4; steps += 1) world.advance(0)
    world.repeat(0)
    world.advance(0)
    early.watches.tell('objects', 3, false)
    client.read(early, UNLIMITED)
    const late = new Server(world, UNLIMITED).start()
    client.connect(late)
    client.read(late, UNLIMITED)
    expectStates(client, world)
  })

  test('reads what the log says before what an object says', () => {
    const world = new DeliveryWorld(1)
    const idle = new Server(world, UNLIMITED)
    const client = new Client('org-0', idle)
    world.accept([FAILS])
    for (let steps = 0; steps < 5; steps += 1) world.advance(0)
    const late = new Server(world, UNLIMITED).start()
    client.connect(late)
    // The event, and one of the two messages about its delivery.
    client.read(late, 1)
    client.read(late, 1)
    idle.watches.tellAll()
    client.connect(idle)
    client.read(idle, UNLIMITED)
    expectStates(client, world)
  })

  test('finds an attempt at its first place in the log, although the server has read the second place first', () => {
    const world = new DeliveryWorld(1)
    const early = new Server(world, UNLIMITED)
    const client = new Client('org-0', early)
    world.accept([FAILS, FAILS])
    world.advance(0)
    world.advance(1)
    world.repeat(0)
    const late = new Server(world, UNLIMITED).start()
    client.connect(late)
    // Two events, and the first of the two attempts.
    for (let left = 3; left > 0; left -= 1) client.read(late, 1)
    early.watches.tellAll()
    client.connect(early)
    client.read(early, UNLIMITED)
    expectAll(client, world)
  })
})

test('a server that has just started has no messages from long ago, and nobody continues there', () => {
  const world = new DeliveryWorld(1)
  const early = new Server(world, UNLIMITED)
  const client = new Client('org-0', early)
  const left = new Client('org-0', early)
  world.accept([{ endpoint: 0, script: 0, older: 0 }])
  world.advance(0)
  early.watches.tellAll()
  client.read(early, UNLIMITED)
  client.read(early, UNLIMITED)
  const late = new Server(world, UNLIMITED, NOW + KNOWN_AT_START_MS + 10_000).start()
  expect(late.buffer.bytes).toBe(0)
  for (const one of [client, left]) one.connect(late)
  expect([client.messages.length, client.wasLost, left.wasLost]).toEqual([2, false, true])
})
