/** The scan that all tests of bakes rely on finds what it is there for. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { formsOf, leaksIn, leaksInFolder } from '../support/bake/canary.ts'

const SECRET = 'canary-4711+/="% of the scan'
const FORMS = Object.entries(formsOf(SECRET, 'bot'))

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'davit-canary-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

describe('a planted secret is found', () => {
  it.each(FORMS)('as %s, in a text and in a hidden file', (form, text) => {
    expect(leaksIn(`{"msg":"${text}"}`, SECRET, 'bot')).toContain(form)
    mkdirSync(join(folder, '.deep/er'), { recursive: true })
    const path = join(folder, '.deep/er/.hidden')
    writeFileSync(path, Buffer.concat([Buffer.from([0, 255, 128]), Buffer.from(text)]), { mode: 0o600 })
    expect(leaksInFolder(folder, SECRET, 'bot')).toContain(`${path}: ${form}`)
  })

  it('and nothing else', () => {
    writeFileSync(join(folder, 'other'), 'canary-0815')
    expect(leaksInFolder(folder, SECRET, 'bot')).toEqual([])
  })
})
