import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, test } from 'vitest'
import { createLogger, type LogLevel } from './log.ts'

const clock = { now: () => Date.UTC(2026, 0, 31, 12, 0, 0, 7) }

function logInto(level: LogLevel = 'info') {
  const lines: string[] = []
  const log = createLogger({ level, clock, destination: { write: (line) => void lines.push(line) } })
  return { log, lines, entries: () => lines.map((line) => JSON.parse(line) as Record<string, unknown>) }
}

test('a line is one JSON object with time, level, event, message and fields', () => {
  const { log, lines } = logInto()
  log.info('segment_written', 'wrote a segment', { size: 12, kind: 'delivery', event: 'a field' })
  expect(lines).toEqual([
    '{"level":"info","time":"2026-01-31T12:00:00.007Z","size":12,"kind":"delivery","event":"segment_written","msg":"wrote a segment"}\n',
  ])
})

test('lines below the level are left out', () => {
  const { log, entries } = logInto('warn')
  log.info('test_line', 'no')
  log.warn('test_line', 'yes')
  log.error('test_line', 'yes too')
  expect(entries().map((entry) => entry.level)).toEqual(['warn', 'error'])
})

test('a child carries its fields on every line and its children add theirs', () => {
  const { log, entries } = logInto()
  log
    .child({ controller: 'endpoints' })
    .child({ shard: 7, token: 'abc' })
    .warn('test_line', 'slow', { ms: 12 })
  expect(entries()[0]).toMatchObject({ controller: 'endpoints', shard: 7, token: '[redacted]', ms: 12 })
})

test('an error is its type, message and classification, without what a library hung on it', () => {
  const { log, entries } = logInto()
  const cause = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
  const error = Object.assign(new Error('call failed', { cause }), {
    kind: 'Unavailable',
    status: 503,
    response: { text: 'canary-response' },
    request: { headers: { authorization: 'Bearer canary-token' } },
  })
  log.error('test_line', 'gave up', { error })
  expect(entries()[0]?.error).toEqual({
    type: 'Error',
    message: 'call failed',
    kind: 'Unavailable',
    status: 503,
    cause: { type: 'Error', message: 'connect ECONNREFUSED', code: 'ECONNREFUSED' },
  })
})

test('a mistake in the program is logged with its stack', () => {
  const { log, entries } = logInto()
  log.error('test_line', 'bug', { error: new TypeError('x is not a function') })
  expect(entries()[0]?.error).toMatchObject({
    type: 'TypeError',
    stack: expect.stringContaining('log.test.ts'),
  })
})

test('a reader of standard output that stands still does not stop the program', async () => {
  const log = new URL('./log.ts', import.meta.url).href
  const source = `import { createLogger } from ${JSON.stringify(log)}
    const log = createLogger({ level: 'info', clock: Date })
    for (let i = 0; i < 3000; i += 1) log.info('test_line', 'x'.repeat(4000))
    await new Promise((resolve) => setImmediate(resolve))
    process.stderr.write('went on')
    process.kill(process.pid, 'SIGKILL')`
  const child = spawn(process.execPath, ['--input-type=module', '-e', source], {
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 20_000,
  })
  // Nobody reads child.stdout: the pipe holds 64 KB of the 12 MB.
  let printed = ''
  child.stderr.on('data', (chunk) => {
    printed += String(chunk)
  })
  await once(child, 'exit')
  expect(printed).toBe('went on')
})
