/**
 * Preloaded in a role (NODE_OPTIONS=--import): counts which functions run. A request to the Unix socket FIGURES_SOCKET returns
 * the files of which a function ran since the previous request. What ran between the last request and the end of the process is
 * written to a file next to the socket.
 */
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { type Profiler, Session } from 'node:inspector'
import { isMainThread } from 'node:worker_threads'
import { executedFiles } from './executed-files.ts'

const socket = process.env.FIGURES_SOCKET

// A worker thread inherits the environment, but the socket can be opened only once.
if (socket !== undefined && isMainThread) serveCoverage(socket)

function serveCoverage(path: string): void {
  const session = new Session()
  session.connect()
  session.post('Profiler.enable')
  session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  const take = () => JSON.stringify(executedFiles(takeCoverage(session)))
  const server = createServer((_, response) => response.end(take())).listen(path)
  // The server must not keep the role alive.
  server.unref()
  process.on('exit', () => writeFileSync(`${path}.json`, take()))
}

/** Resets all counts. A session with its own thread answers before `post` returns. */
function takeCoverage(session: Session): readonly Profiler.ScriptCoverage[] {
  let coverage: readonly Profiler.ScriptCoverage[] = []
  session.post('Profiler.takePreciseCoverage', (error, taken) => {
    if (error) throw error
    coverage = taken.result
  })
  return coverage
}
