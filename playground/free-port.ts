import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * Below the ephemeral ports of operating systems (Linux 32768-60999, others from 49152): an outgoing connection may take one of
 * those in the moment before a process listens on it. Also below the node ports of Kubernetes.
 */
const FIRST = 10_000
const COUNT = 20_000
const TRIES = 100

const given = new Set<number>()

/**
 * Finds a loopback port for a process that is about to start. A process never gets the same port twice.
 *
 * @throws Error if none is found
 */
export async function freePort(): Promise<number> {
  for (let tried = 0; tried < TRIES; tried++) {
    const port = FIRST + Math.floor(Math.random() * COUNT)
    if (given.has(port) || !(await isFree(port))) continue
    given.add(port)
    return port
  }
  throw new Error(`found no free port in ${TRIES} tries between ${FIRST} and ${FIRST + COUNT}`)
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, '127.0.0.1')
  try {
    await once(server, 'listening')
  } catch {
    return false
  }
  server.close()
  await once(server, 'close')
  return true
}
