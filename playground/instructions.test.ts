import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { Instructions, shortPath } from './instructions.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'davit-instructions-'))
})
afterEach(() => rm(folder, { recursive: true }))

it('the file has the instructions of the start, then those for the bakes, whichever comes first', async () => {
  const instructions = new Instructions(folder)
  instructions.setBakes(['# bake', ''])
  instructions.setWelcome(['', '# publish', ''])
  expect(await readFile(instructions.path, 'utf8')).toBe('# publish\n\n# bake\n')
  expect(instructions.lines).toEqual(['', '# publish', '', '# bake', ''])
  expect((await stat(instructions.path)).mode & 0o777).toBe(0o600)
})

it('the file is gone afterwards', async () => {
  const instructions = new Instructions(folder)
  instructions.setWelcome(['# publish'])
  instructions.remove()
  instructions.remove()
  expect(await readdir(folder)).toEqual([])
})

it('a path below the folder of the user is short', () => {
  expect(shortPath('/davit/.davit/instructions.txt', '/davit')).toBe('.davit/instructions.txt')
  expect(shortPath('/tmp/state/instructions.txt', '/davit')).toBe('/tmp/state/instructions.txt')
})
