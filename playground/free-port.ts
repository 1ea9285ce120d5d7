import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * Below the ports that systems give to connections which go out (Linux 32768-60999, others from 49152): one of those may be taken by
 * any connection in the moment before a process listens on it. Also below the node ports of Kubernetes.
 */
const FIRST = 10_000
const COUNT = 20_000
const TRIES = 100

const given = new Set<number>()

/**
 * A port of loopback for a process that is started next. None is given twice by one process.
 *
 * @throws Error when none is found
 */
export async function freePort(): Promise<number> {
  for (let tried = 0; tried < TRIES; tried++) {
    const port = FIRST + Math.floor(Math.random() * COUNT)
    if (given.has(port) || !(await isFree(port))) continue
    given.add(port)
    return port
  }
  throw new Error(`no free port of ${TRIES} between ${FIRST} and ${FIRST + COUNT}`)
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
