import { EventEmitter } from 'node:events'
import { expect, test } from 'vitest'
import { logUncaughtErrors } from './process.ts'

function watched() {
  const source = new EventEmitter()
  const lines: string[] = []
  const error = (_event: string, message: string, { stack }: Record<string, unknown> = {}) =>
    void lines.push(`${message}: ${String(stack).split('\n')[0]}`)
  const nothing = () => undefined
  const log = { info: nothing, warn: nothing, error, flush: () => void lines.push('flushed') }
  logUncaughtErrors(source, { log, exit: (code) => void lines.push(`exit ${code}`) })
  return { source, lines }
}

test('a rejection that nobody waits for is logged and ends nothing', () => {
  const { source, lines } = watched()
  source.emit('unhandledRejection', new Error('poison'))
  expect(lines).toEqual(['unhandled promise rejection: Error: poison'])
})

test('an exception that nothing caught is logged, written out, and ends the process', () => {
  const { source, lines } = watched()
  source.emit('uncaughtException', new Error('poison'))
  expect(lines).toEqual(['uncaught exception; exiting: Error: poison', 'flushed', 'exit 1'])
})
