import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { imageArchitecture, tinyProgram } from './tiny-program.ts'

it('the program of images runs here, and ends with 0', () => {
  const folder = mkdtempSync(join(tmpdir(), 'davit-program-'))
  const path = join(folder, 'program')
  writeFileSync(path, tinyProgram(imageArchitecture()), { mode: 0o755 })
  const { status, signal, error } = spawnSync(path)
  rmSync(folder, { recursive: true })
  expect({ status, signal, error }).toEqual({ status: 0, signal: null, error: undefined })
})

it('there is none for what nobody has written it for', () => {
  expect(() => tinyProgram('riscv64')).toThrow('riscv64')
})
