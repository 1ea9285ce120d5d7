/** Receivers that misbehave, each on its own port. */
import { onRequest, type RawReceiver, startRawReceiver } from '../support/receiver-raw.ts'
import { createTestAuthority, selfSignedCertificate } from '../support/tls.ts'
import { MISBEHAVIOURS } from './misbehaviours.ts'

export type HostileReceiver = {
  name: string
  /** With a path. */
  url: string
  /** Whether only the timeout of an attempt ends it. */
  hangs: boolean
  /** Whether its answer is a success. */
  counts: boolean
  /** Whether its connection may be reused. */
  keeps: boolean
  /** TCP connections so far. */
  connections(): number
  /** Open connections. */
  open(): number
  drained(): Promise<void>
}

export type HostileReceivers = {
  receivers: readonly HostileReceiver[]
  /** PEM of the authority for the certificates with other faults. */
  ca: string
  close(): Promise<void>
}

export async function startHostileReceivers(): Promise<HostileReceivers> {
  const authority = createTestAuthority()
  const started: RawReceiver[] = []
  const receivers: HostileReceiver[] = []
  const add = (
    name: string,
    raw: RawReceiver,
    how: { url?: string; hangs?: boolean; counts?: boolean; keeps?: boolean },
  ) => {
    started.push(raw)
    receivers.push({
      name,
      url: `${how.url ?? raw.url}/hook`,
      hangs: how.hangs ?? false,
      counts: how.counts ?? false,
      keeps: how.keeps ?? false,
      connections: raw.connections,
      open: raw.open,
      drained: raw.drained,
    })
  }
  for (const { name, answer, ...how } of MISBEHAVIOURS) {
    add(name, await startRawReceiver((socket) => onRequest(socket, answer)), how)
  }
  const secure = {
    'has a certificate of no authority': selfSignedCertificate(['127.0.0.1']),
    'has the certificate of another host': authority.issue(['127.0.0.2']),
    'has an expired certificate': authority.issue(['127.0.0.1'], -1),
  }
  for (const [name, tls] of Object.entries(secure)) {
    const raw = await startRawReceiver(() => undefined, { tls })
    add(name, raw, { url: `https://127.0.0.1:${raw.port}` })
  }
  const plain = await startRawReceiver((socket) =>
    socket.on('data', () => socket.end('HTTP/1.1 400 No\r\n\r\n')),
  )
  add('speaks plain text where TLS is meant', plain, { url: `https://127.0.0.1:${plain.port}` })
  const mute = await startRawReceiver(() => undefined)
  add('hangs in the handshake', mute, { url: `https://127.0.0.1:${mute.port}`, hangs: true })
  return {
    receivers,
    ca: authority.ca,
    close: async () => {
      await Promise.all(started.map((raw) => raw.close()))
    },
  }
}
