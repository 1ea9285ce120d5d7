/** Preloaded in a process (NODE_OPTIONS=--import): it exits like after a crash whenever it is about to send to EXIT_PATH. */
import { subscribe } from 'node:diagnostics_channel'

const path = process.env.EXIT_PATH

subscribe('undici:request:create', (message) => {
  const { request } = message as { request: { path: string } }
  if (request.path === path) process.kill(process.pid, 'SIGKILL')
})
