/**
 * Preloaded in each role that the playground starts: the role ends when the pipe to its parent closes, so that even a killed
 * playground leaves nothing behind.
 */
const GRACE_MS = 5000

process.stdin.on('end', () => {
  process.kill(process.pid, 'SIGTERM')
  setTimeout(() => process.exit(1), GRACE_MS).unref()
})
process.stdin.on('error', () => process.exit(1))
process.stdin.resume()
// The pipe alone must not keep an otherwise finished process alive.
if ('unref' in process.stdin && typeof process.stdin.unref === 'function') process.stdin.unref()
