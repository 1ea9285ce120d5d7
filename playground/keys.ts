/** Single keys that control the playground. */
import { readFileSync } from 'node:fs'
import type { ReadStream } from 'node:tty'

export type Key = 'instructions' | 'pause' | 'quit' | 'suspend'

const CTRL_C = '\u0003'
const KEYS: Readonly<Record<string, Key>> = {
  h: 'instructions',
  '?': 'instructions',
  p: 'pause',
  q: 'quit',
  '\u001a': 'suspend',
}

/** Time for the process to stop, before it takes the terminal back. */
const SUSPEND_MS = 100

/** @param chunk as it arrives from the terminal: one key, an escape sequence, or text that was pasted by mistake */
export function keyIn(chunk: string): Key | undefined {
  if (chunk.includes(CTRL_C)) return 'quit'
  const key = chunk.toLowerCase()
  return Object.hasOwn(KEYS, key) ? KEYS[key] : undefined
}

/** @param options `areRead`: whether this process reads keys; `file`: where the instructions are, absent if there are none */
export function describeKeys(
  options: { areRead: boolean; file?: string | undefined },
  isPaused: boolean,
): string {
  const { areRead, file } = options
  const keys = areRead ? [`p: ${isPaused ? 'continue' : 'pause'}`, 'q: quit'] : ['Ctrl-C: quit']
  const instructions = areRead ? 'h: instructions, also in ' : 'instructions: '
  return [...keys, ...(file === undefined ? [] : [`${instructions}${file}`])].join('   ')
}

/**
 * Reads keys until the returned function is called. In raw mode, a key arrives without Enter and is not shown, but Ctrl-C and
 * Ctrl-Z arrive as keys as well. At any exit of this process, Node itself restores the mode of the terminal.
 *
 * @param onKey gets all keys except for the suspension, which is done here
 */
export function readKeys(input: ReadStream, onKey: (key: Exclude<Key, 'suspend'>) => void): () => void {
  let isClosed = false
  const setRaw = (isRaw: boolean) => {
    // The terminal may be gone.
    if (!input.destroyed) input.setRawMode(isRaw)
  }
  const onData = (chunk: string) => {
    const key = keyIn(chunk)
    if (key === 'suspend') suspend()
    else if (key !== undefined) onKey(key)
  }
  const suspend = () => {
    setRaw(false)
    // The whole job, as the terminal would do it: a shell waits for npm as well.
    process.kill(0, 'SIGTSTP')
    setTimeout(() => {
      if (isClosed) return
      // Continued by `bg`, it goes without keys from now on.
      if (isInForeground()) setRaw(true)
      else input.pause()
    }, SUSPEND_MS)
  }
  input.setEncoding('utf8').on('data', onData)
  setRaw(true)
  return () => {
    isClosed = true
    input.off('data', onData).pause()
    setRaw(false)
  }
}

/**
 * Only the foreground job may read keys: the kernel would stop another one (`npm start &`). On systems without /proc, every job
 * counts as one in the foreground.
 */
export function isInForeground(): boolean {
  try {
    const stat = readFileSync('/proc/self/stat', 'utf8')
    // The name in the second field may contain anything; the fields after its closing bracket are plain.
    const [, , group, , , foreground] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return group === foreground
  } catch {
    return true
  }
}
