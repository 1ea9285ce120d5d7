import { describe, expect, test } from 'vitest'
import { driftOf } from './drift.ts'
import type { Output } from './generated-file.ts'

const output: Output = {
  owns: ['made'],
  files: (read) => [
    { path: 'made/a.yaml', content: 'a' },
    { path: 'notes.md', content: `${read('notes.md')?.split('|')[0] ?? ''}|generated` },
  ],
}

function driftOfTree(tree: Record<string, string>) {
  return driftOf([output], {
    read: (path) => tree[path],
    list: (folder) => Object.keys(tree).filter((path) => path.startsWith(`${folder}/`)),
  })
}

describe('driftOf', () => {
  test('finds nothing where everything is as generated', () => {
    expect(driftOfTree({ 'made/a.yaml': 'a', 'notes.md': 'by hand|generated' })).toEqual([])
  })

  test('finds what is missing, edited and left over', () => {
    expect(driftOfTree({ 'made/old.yaml': 'x', 'notes.md': 'by hand|edited' })).toEqual([
      { path: 'made/a.yaml', problem: 'is missing', wanted: 'a' },
      { path: 'notes.md', problem: 'is out of date', wanted: 'by hand|generated' },
      { path: 'made/old.yaml', problem: 'is no longer generated' },
    ])
  })

  test('leaves files outside its own folders alone', () => {
    const tree = { 'made/a.yaml': 'a', 'notes.md': '|generated', 'other/b.yaml': 'b' }
    expect(driftOfTree(tree)).toEqual([])
  })
})
