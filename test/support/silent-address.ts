/** An address that neither accepts nor rejects connections, like behind a firewall that drops packets. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * The system drops further connections while this many, and one more, wait to be accepted by a process that never accepts them.
 */
const WAITING = 1
/** A connection without an answer by then never gets one. */
const SILENT_MS = 300
const LISTEN = `
  const server = require('node:net').createServer()
  server.listen({ host: process.argv[1], port: Number(process.argv[2]), backlog: ${WAITING} }, () => console.log('listens'))
`

/** @returns a handle that ends it */
export async function silence(host: string, port: number): Promise<{ close(): Promise<void> }> {
  const child = spawn(process.execPath, ['-e', LISTEN, host, String(port)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(child.stdout, 'data')
  child.kill('SIGSTOP')
  const waiting = Array.from({ length: WAITING + 1 }, () => connect({ host, port }))
  await Promise.all(
    waiting.map(async (socket) => {
      await once(socket, 'connect')
      socket.on('error', () => undefined)
    }),
  )
  const more = connect({ host, port })
  const isSilent = await Promise.race([
    once(more, 'connect').then(() => false),
    sleep(SILENT_MS).then(() => true),
  ])
  more.destroy()
  if (!isSilent) throw new Error(`${host}:${port} takes more connections`)
  return {
    close: async () => {
      for (const socket of waiting) socket.destroy()
      child.kill('SIGKILL')
      await once(child, 'exit')
    },
  }
}
