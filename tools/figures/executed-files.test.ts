import type { Profiler } from 'node:inspector'
import { expect, it } from 'vitest'
import { executedFiles } from './executed-files.ts'

type Part = [startOffset: number, count: number]

function script(url: string, ...parts: Part[]): Profiler.ScriptCoverage {
  const functions = parts.map(([startOffset, count]) => ({
    functionName: '',
    ranges: [{ startOffset, endOffset: 100, count }],
    isBlockCoverage: false,
  }))
  return { scriptId: '1', url, functions }
}

it.each([
  {
    name: 'a file with a function that ran',
    given: script('file:///a.ts', [0, 0], [10, 0], [20, 2]),
    want: 1,
  },
  { name: 'a file without one', given: script('file:///a.ts', [0, 0], [10, 0]), want: 0 },
  { name: 'a file that was only loaded', given: script('file:///a.ts', [0, 1], [10, 0]), want: 0 },
  { name: 'a module of Node', given: script('node:fs', [10, 1]), want: 0 },
])('counts $want of $name', ({ given, want }) => {
  expect(executedFiles([given])).toHaveLength(want)
})
