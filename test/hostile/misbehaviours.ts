/** The responses of hostile receivers, byte by byte. */
import type { Socket } from 'node:net'
import { gzipSync } from 'node:zlib'

export type Misbehaviour = {
  name: string
  /** Gets the connection after a complete request. */
  answer: (socket: Socket) => void
  /** Whether only the timeout of an attempt ends it. */
  hangs?: boolean
  /** Answers with a 2xx code that counts as success. */
  counts?: boolean
  /** Whether it respects HTTP, so that its connection may be reused. */
  keeps?: boolean
}

const OK = 'HTTP/1.1 200 OK\r\n'
const NO_BODY = 'content-length: 0\r\n\r\n'
const DRIP_MS = 20
const FLOOD_MS = 2
const HUGE_BYTES = 200 * 2 ** 20
const CHUNK = Buffer.alloc(64 * 1024, 'a')
const BOMB = gzipSync(Buffer.alloc(20 * 2 ** 20), { level: 9 })

/** Repeats until the client has gone. */
function drip(socket: Socket, piece: string, everyMs: number): void {
  const timer = setInterval(() => {
    if (socket.writableLength < CHUNK.length) socket.write(piece)
  }, everyMs)
  socket.once('close', () => clearInterval(timer))
}

function pour(socket: Socket, bytes: number): void {
  let left = bytes
  const more = () => {
    while (left > 0 && !socket.destroyed) {
      left -= CHUNK.length
      if (!socket.write(CHUNK)) return void socket.once('drain', more)
    }
  }
  more()
}

function redirect(code: number): (socket: Socket) => void {
  return (socket) => socket.write(`HTTP/1.1 ${code} Moved\r\nlocation: /again\r\n${NO_BODY}`)
}

/** Of successful answers, 16 KB of a body are read and the rest is not. */
export const MISBEHAVIOURS: readonly Misbehaviour[] = [
  { name: 'never answers', answer: () => undefined, hangs: true },
  {
    name: 'sends a head in lines without end',
    answer: (socket) => {
      socket.write(OK)
      drip(socket, 'x: y\r\n', DRIP_MS)
    },
    hangs: true,
  },
  {
    name: 'floods with 103',
    answer: (socket) => drip(socket, 'HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n'.repeat(20), FLOOD_MS),
    hangs: true,
  },
  {
    name: 'drips a body',
    answer: (socket) => {
      socket.write(`${OK}content-length: 10000000\r\n\r\n`)
      drip(socket, 'a', DRIP_MS)
    },
    hangs: true,
  },
  {
    name: 'drips chunks',
    answer: (socket) => {
      socket.write(`${OK}transfer-encoding: chunked\r\n\r\n`)
      drip(socket, '1\r\na\r\n', DRIP_MS)
    },
    hangs: true,
  },
  {
    name: 'answers with 200 MB',
    answer: (socket) => {
      socket.write(`${OK}content-length: ${HUGE_BYTES}\r\n\r\n`)
      pour(socket, HUGE_BYTES)
    },
    counts: true,
  },
  {
    name: 'answers with a gzip bomb',
    answer: (socket) => {
      const head = `${OK}content-encoding: gzip\r\ncontent-length: ${BOMB.length}\r\n\r\n`
      socket.write(Buffer.concat([Buffer.from(head), BOMB]))
    },
    counts: true,
  },
  {
    name: 'names a thousand encodings',
    answer: (socket) => socket.write(`${OK}content-encoding: ${'gzip, '.repeat(1000)}br\r\n${NO_BODY}`),
    counts: true,
    keeps: true,
  },
  { name: 'resets before the answer', answer: (socket) => socket.resetAndDestroy() },
  {
    name: 'resets in the body',
    answer: (socket) =>
      socket.write(`${OK}content-length: 100\r\n\r\nabc`, () =>
        setTimeout(() => socket.resetAndDestroy(), 50),
      ),
  },
  {
    name: 'ends in the body',
    answer: (socket) => socket.end(`${OK}content-length: 100\r\n\r\nabc`),
  },
  {
    name: 'floods with headers',
    answer: (socket) => socket.write(`${OK}${'x-flood: 0123456789\r\n'.repeat(2000)}\r\n`),
  },
  { name: 'sends one endless header', answer: (socket) => socket.write(`${OK}x: ${'y'.repeat(100_000)}`) },
  { name: 'speaks no HTTP', answer: (socket) => socket.write('220 mail.example ESMTP\r\n') },
  {
    name: 'names two lengths',
    answer: (socket) => socket.write(`${OK}content-length: 1\r\ncontent-length: 2\r\n\r\nx`),
  },
  {
    name: 'switches protocols',
    answer: (socket) => socket.write('HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n'),
  },
  { name: 'redirects to itself (302)', answer: redirect(302), keeps: true },
  { name: 'redirects for good (308)', answer: redirect(308), keeps: true },
  { name: 'is gone (410)', answer: (socket) => socket.write(`HTTP/1.1 410 Gone\r\n${NO_BODY}`), keeps: true },
  {
    name: 'asks to wait for 30,000 years',
    answer: (socket) => socket.write(`HTTP/1.1 429 Slow\r\nretry-after: 1000000000000\r\n${NO_BODY}`),
    keeps: true,
  },
]
