import {
  existsSync,
  lutimesSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createBoxStore } from './store.ts'

const DAY_MS = 24 * 3600 * 1000

let output: string
let warnings: string[]
beforeEach(() => {
  output = mkdtempSync(join(tmpdir(), 'davit-output-'))
  warnings = []
})
afterEach(() => rmSync(output, { recursive: true }))

const log = { warn: (_event: string, message: string) => void warnings.push(message) }
const place = (name: string) => join(output, '.davit', name)
const isThere = (name: string) => existsSync(place(name))

function age(path: string, days: number): void {
  const time = new Date(Date.now() - days * DAY_MS)
  utimesSync(path, time, time)
}

/** What is left of `<template>/<bake>`, for so many days. */
function leave(name: string, days: number): void {
  mkdirSync(join(place(name), 'blobs/sha256'), { recursive: true })
  writeFileSync(join(place(name), 'blobs/sha256/half'), 'half')
  for (const part of ['blobs', '']) age(join(place(name), part), days)
}

/** Of another template. */
async function open(now: () => number = Date.now): Promise<void> {
  const store = createBoxStore({ output, template: 'shop', bake: 'one', clock: { now }, log })
  await (await store.open()).discard()
}

describe('when a store is opened', () => {
  it('what a killed bake of another template has left goes after a week, with the folder and the link', async () => {
    leave('gone/killed', 8)
    symlinkSync('killed', place('gone/killed.link'))
    const old = new Date(Date.now() - 8 * DAY_MS)
    lutimesSync(place('gone/killed.link'), old, old)
    await open()
    expect(readdirSync(place('gone'))).toEqual([])
    expect(warnings.length).toBe(2)
  })

  it('what is of a bake that may run stays', async () => {
    leave('other/runs', 6)
    await open()
    expect(isThere('other/runs')).toBe(true)
  })

  it('a folder that is old stays where something in it is not', async () => {
    leave('other/runs', 30)
    age(join(place('other/runs'), 'blobs'), 1)
    await open()
    expect(isThere('other/runs')).toBe(true)
  })

  it('nothing goes because the clock of one machine is wrong', async () => {
    leave('other/runs', 1)
    await open(() => Date.now() + 365 * DAY_MS)
    leave('other/runs', 8)
    await open(() => 0)
    expect(isThere('other/runs')).toBe(true)
  })

  it.each([
    ['as the box', 'other', '.davit/other/one'],
    ['by a link of somebody', 'production', 'other'],
    ['by a link that begins at the root', 'production', '/boxes/.davit/other/one'],
    ['by a link to a part of it', 'production', '.davit/other/one/blobs'],
  ])('what is named %s stays, however old', async (_how, link, target) => {
    leave('other/one', 400)
    if (target === 'other') symlinkSync('.davit/other/one', join(output, 'other'))
    symlinkSync(target, join(output, link))
    await open()
    expect(isThere('other/one')).toBe(true)
  })

  it('the box before, which people may be reading, stays', async () => {
    leave('other/before', 400)
    writeFileSync(join(place('other/before'), 'index.json'), '{}')
    age(join(place('other/before'), 'index.json'), 400)
    age(place('other/before'), 400)
    await open()
    expect(isThere('other/before')).toBe(true)
  })

  it('nothing goes through a link that somebody has made among the folders of bakes', async () => {
    mkdirSync(join(output, 'mine/data'), { recursive: true })
    age(join(output, 'mine/data'), 400)
    mkdirSync(place(''), { recursive: true })
    symlinkSync('../mine', place('evil'))
    await open()
    expect(existsSync(join(output, 'mine/data'))).toBe(true)
  })
})
