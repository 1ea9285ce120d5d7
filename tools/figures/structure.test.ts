import { expect, it } from 'vitest'
import { structureLines, structureOf } from './structure.ts'

const SOURCES = new Map([
  ['src/a.ts', "/** Starts. */\nimport { b } from './b.ts'\nb()\n"],
  ['src/b.ts', "import type { C } from './c.ts'\nexport const b = (c?: C) => c\n"],
  ['src/c.ts', "import { b } from './b.ts'\n// Why.\nexport type C = typeof b\nb()\n"],
])

it('describes sources by their lines and imports', () => {
  expect(structureOf(SOURCES)).toEqual({
    files: 3,
    lines: 9,
    commentLines: 2,
    median: 3,
    longest: { path: 'src/c.ts', lines: 4 },
    importedOnce: 1,
    cycles: [['src/b.ts', 'src/c.ts']],
  })
})

it('prints the share of files with one importer, and each cycle', () => {
  const lines = structureLines(structureOf(SOURCES))
  expect(lines).toContain('one importer           1 files, 33.3 %')
  expect(lines.at(-1)).toBe('  2 files: src/b.ts, src/c.ts')
})
