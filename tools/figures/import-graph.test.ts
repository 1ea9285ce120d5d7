import { describe, expect, it } from 'vitest'
import { cyclesOf, type ImportGraph, importedOnce, importGraph } from './import-graph.ts'

/** Builds a graph from `{ a: 'bc' }`: file a imports b and c. */
function graphOf(imports: Record<string, string>): ImportGraph {
  return new Map(Object.entries(imports).map(([path, targets]) => [path, new Set(targets)]))
}

describe('importGraph', () => {
  it('has imports of every form once, types included', () => {
    const sources = new Map([
      ['src/a.ts', "import { b } from './x/b.ts'\nimport type { B } from './x/b.ts'\nimport 'node:fs'\n"],
      ['src/x/b.ts', "export * from '../a.ts'\nexport type C = import('./c.ts').C\n"],
      ['src/x/c.ts', "import { outside } from '../../test/outside.ts'\n"],
    ])
    expect([...importGraph(sources)]).toEqual([
      ['src/a.ts', new Set(['src/x/b.ts'])],
      ['src/x/b.ts', new Set(['src/a.ts', 'src/x/c.ts'])],
      ['src/x/c.ts', new Set()],
    ])
  })
})

describe('importedOnce', () => {
  it('leaves out files that none, or several, import', () => {
    expect(importedOnce(graphOf({ a: 'bc', b: 'cd', c: '', d: '' }))).toEqual(['b', 'd'])
  })
})

describe('cyclesOf', () => {
  it.each([
    { name: 'no cycle', given: { a: 'bc', b: 'c', c: '' }, want: [] },
    { name: 'two files', given: { a: 'b', b: 'a' }, want: [['a', 'b']] },
    {
      name: 'two cycles that share a file as one',
      given: { a: 'b', b: 'ac', c: 'b' },
      want: [['a', 'b', 'c']],
    },
    {
      name: 'two cycles of which one reaches the other',
      given: { a: 'b', b: 'ac', c: 'd', d: 'c' },
      want: [
        ['c', 'd'],
        ['a', 'b'],
      ],
    },
    {
      name: 'a cycle that is entered in its middle',
      given: { z: 'b', a: 'b', b: 'c', c: 'a' },
      want: [['a', 'b', 'c']],
    },
  ])('finds $name', ({ given, want }) => {
    expect(cyclesOf(graphOf(given))).toEqual(want)
  })
})
