import { parseSync } from 'oxc-parser'
import { expect, test } from 'vitest'
import type { SyntaxNode } from '../contract/source-files.ts'
import { logCallsOf, stringsOf, titlesOf } from './code.ts'

function parsed(text: string) {
  const program = parseSync('example.ts', text).program as unknown as SyntaxNode
  return [
    { path: 'example.ts', program },
    (offset: number) => text.slice(0, offset).split('\n').length,
  ] as const
}

test('strings and templates of several words are texts; names and formats are not', () => {
  const text = [
    "import a from './some-name.ts'",
    "const b = 'an endpoint is disabled'",
    'const c = `the endpoint $' + '{b} of $' + '{a} is gone`',
    "const d = 'application/json; charset=utf-8'",
    "const e = 'one'",
  ].join('\n')
  expect(stringsOf(...parsed(text))).toEqual([
    { line: 2, text: 'an endpoint is disabled' },
    { line: 3, text: 'the endpoint value of value is gone' },
  ])
})

test('titles are the values of that name', () => {
  expect(titlesOf(...parsed("const P = { a: { title: 'Not found', detail: 'No such route.' } }"))).toEqual([
    { line: 1, text: 'Not found' },
  ])
})

test('log calls are those of a logger, with code and message', () => {
  const text = [
    "log.warn('lease_renewal_failed', 'failed to renew the Lease', { error })",
    "this.#options.log.error('Something went wrong')",
    "console.error('not a log call')",
  ].join('\n')
  expect(logCallsOf(...parsed(text))).toEqual([
    { line: 1, text: '', event: 'lease_renewal_failed', message: 'failed to renew the Lease' },
    { line: 2, text: '', event: 'Something went wrong', message: undefined },
  ])
})
