/** A DNS server on the level of packets, for name servers that answer late, or never, or not every question. */
import { createSocket, type RemoteInfo } from 'node:dgram'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import ipaddr from 'ipaddr.js'

export type Question = { type: 'A' | 'AAAA' | 'other'; name: string }

/** Addresses, the name of a response code, or no response at all. */
export type Reply = readonly string[] | keyof typeof CODES | 'silence'

export type TestNameServer = {
  /** For `setServers`. */
  address: string
  /** In the order in which they arrived, as `A example.com`. */
  questions: readonly string[]
  close(): Promise<void>
}

const TYPES: Readonly<Record<number, 'A' | 'AAAA'>> = { 1: 'A', 28: 'AAAA' }
const CODES = { FORMERR: 1, SERVFAIL: 2, NXDOMAIN: 3, NOTIMP: 4, REFUSED: 5 } as const
const HEADER_BYTES = 12
/** Points to the name of the question. */
const NAME_POINTER = Buffer.from([0xc0, HEADER_BYTES])

/** @param reply what to answer, possibly later */
export async function startNameServer(
  reply: (question: Question) => Reply | Promise<Reply>,
): Promise<TestNameServer> {
  const socket = createSocket('udp4')
  const questions: string[] = []
  let isOpen = true
  socket.on('message', (packet: Buffer, from: RemoteInfo) => {
    const question = readQuestion(packet)
    questions.push(`${question.type} ${question.name}`)
    void Promise.resolve(reply(question)).then((answer) => {
      if (answer !== 'silence' && isOpen)
        socket.send(responseTo(packet, question, answer), from.port, from.address)
    })
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  const { port } = socket.address() as AddressInfo
  return {
    address: `127.0.0.1:${port}`,
    questions,
    async close() {
      isOpen = false
      const closed = once(socket, 'close')
      socket.close()
      await closed
    },
  }
}

type Parsed = Question & { end: number }

function readQuestion(packet: Buffer): Parsed {
  const labels: string[] = []
  let at = HEADER_BYTES
  for (let length = packet[at] ?? 0; length > 0; length = packet[at] ?? 0) {
    labels.push(packet.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  const type = TYPES[packet.readUInt16BE(at + 1)] ?? 'other'
  return { type, name: labels.join('.').toLowerCase(), end: at + 5 }
}

function responseTo(packet: Buffer, { type, end }: Parsed, reply: Exclude<Reply, 'silence'>): Buffer {
  const answers = typeof reply === 'string' ? [] : reply.filter((address) => isOf(type, address))
  const header = Buffer.alloc(HEADER_BYTES)
  packet.copy(header, 0, 0, 2)
  header.writeUInt16BE(0x8180 | (typeof reply === 'string' ? CODES[reply] : 0), 2)
  header.writeUInt16BE(1, 4)
  header.writeUInt16BE(answers.length, 6)
  return Buffer.concat([header, packet.subarray(HEADER_BYTES, end), ...answers.map(record)])
}

function isOf(type: Question['type'], address: string): boolean {
  return (address.includes(':') ? 'AAAA' : 'A') === type
}

function record(address: string): Buffer {
  const data = Buffer.from(ipaddr.parse(address).toByteArray())
  const fields = Buffer.alloc(10)
  fields.writeUInt16BE(data.length === 4 ? 1 : 28, 0)
  fields.writeUInt16BE(1, 2)
  fields.writeUInt16BE(data.length, 8)
  return Buffer.concat([NAME_POINTER, fields, data])
}
