/** Standard output that nobody reads is no reason to stay. */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, constants, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'

const LOG = new URL('./log.ts', import.meta.url).href
const LINES = 200

/** Ends with 3 at once, or with 4 in good order. */
const PROGRAM = `import { createLogger } from ${JSON.stringify(LOG)}
  const log = createLogger({ level: 'info', clock: Date })
  for (let i = 0; i < ${LINES}; i += 1) log.info('test_line', 'x'.repeat(1000))
  await new Promise((resolve) => setTimeout(resolve, 100))
  if (process.argv[1] === 'at once') {
    log.flush()
    process.exit(3)
  }
  await log.close()
  process.exitCode = 4`

const ENDS = [
  { how: 'at once', code: 3 },
  { how: 'in good order', code: 4 },
]

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'davit-standard-output-'))
})
afterAll(() => rmSync(folder, { recursive: true }))

function start(how: string, stdout: number | 'pipe') {
  return spawn(process.execPath, ['--input-type=module', '-e', PROGRAM, how], {
    stdio: ['ignore', stdout, 'inherit'],
    timeout: 20_000,
    killSignal: 'SIGKILL',
  })
}

/** A pipe that is full. @returns the end to write to, and the one that keeps it open */
function fullPipe(name: string): { end: number; held: number } {
  const path = join(folder, name)
  execFileSync('mkfifo', [path])
  const held = openSync(path, constants.O_RDWR | constants.O_NONBLOCK)
  for (const size of [4096, 1]) {
    try {
      for (;;) writeSync(held, Buffer.alloc(size, 'x'))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
    }
  }
  return { end: openSync(path, constants.O_WRONLY), held }
}

test.each(ENDS)('a process whose log nobody reads ends $how', async ({ how, code }) => {
  const { end, held } = fullPipe(how.replaceAll(' ', '-'))
  const [got] = await once(start(how, end), 'exit')
  closeSync(end)
  closeSync(held)
  expect(got).toBe(code)
})

test('a log that is read is whole, in a pipe and in a file', async () => {
  const piped = start('in good order', 'pipe')
  const lines = await text(piped.stdout as NonNullable<typeof piped.stdout>)
  expect(lines.trim().split('\n')).toHaveLength(LINES)
  const path = join(folder, 'log')
  const file = openSync(path, 'w')
  await once(start('in good order', file), 'exit')
  closeSync(file)
  expect(readFileSync(path, 'utf8').trim().split('\n')).toHaveLength(LINES)
})

test('a reader that goes away does not end the process', async () => {
  const child = start('in good order', 'pipe')
  child.stdout?.destroy()
  const [code] = await once(child, 'exit')
  expect(code).toBe(4)
})
