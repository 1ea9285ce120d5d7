import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { ensureBakeTools } from './tools.ts'

let folder: string
let notes: string[]

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'davit-bake-tools-'))
  notes = []
  vi.stubEnv('PATH', folder)
})

afterEach(async () => {
  vi.unstubAllEnvs()
  await rm(folder, { recursive: true })
})

async function program(name: string, ...lines: string[]): Promise<void> {
  await writeFile(join(folder, name), ['#!/bin/sh', ...lines, ''].join('\n'))
  await chmod(join(folder, name), 0o755)
}

async function ensure(isRoot: boolean, stopping = new AbortController().signal): Promise<boolean> {
  return await ensureBakeTools({ bakes: true, note: (line) => notes.push(line), stopping, isRoot })
}

const MISSING = 'Skipping the bakes. Missing programs: docker-registry, htpasswd, skopeo'
const ADVICE = 'To install them on Debian, run: apt-get install docker-registry apache2-utils skopeo'
const INSTALLING =
  'Installing packages for bakes in the background, as root: docker-registry apache2-utils skopeo ...'

describe('the programs of bakes', () => {
  beforeEach(() => program('setpriv'))

  test('are used without a word where they are', async () => {
    for (const name of ['docker-registry', 'htpasswd', 'skopeo']) await program(name)
    await program('apt-get', 'exit 1')
    expect(await ensure(true)).toBe(true)
    expect(notes).toEqual([])
  })

  test('are not looked for where no bakes are wanted', async () => {
    await program('apt-get', 'exit 1')
    const stopping = new AbortController().signal
    const note = (line: string) => notes.push(line)
    expect(await ensureBakeTools({ bakes: false, note, stopping, isRoot: true })).toBe(false)
    expect(notes).toEqual([])
  })

  test('are named for somebody who may not install them', async () => {
    await program('apt-get', 'exit 1')
    expect(await ensure(false)).toBe(false)
    expect(notes).toEqual([MISSING, ADVICE])
  })

  test('are installed where that can be done', async () => {
    const made = ['docker-registry', 'htpasswd', 'skopeo'].map((name) => `/bin/cp "$0" "${folder}/${name}"`)
    await program('apt-get', 'case "$*" in *--download-only*|*update*) exit 0;; esac', ...made)
    expect(await ensure(true)).toBe(true)
    expect(notes).toEqual([INSTALLING])
  })

  test('are named with the words of apt-get where it fails', async () => {
    await program('apt-get', 'echo "E: Unable to locate package skopeo" >&2', 'exit 100')
    expect(await ensure(true)).toBe(false)
    expect(notes).toEqual([INSTALLING, MISSING, 'apt-get: E: Unable to locate package skopeo', ADVICE])
  })

  test('are not waited for by whoever ends the playground', async () => {
    await program('apt-get', `echo begun > "${folder}/begun"`, 'exec /bin/sleep 60')
    const stopping = new AbortController()
    const done = ensure(true, stopping.signal)
    await vi.waitFor(() => expect(notes).toHaveLength(1))
    stopping.abort()
    expect(await done).toBe(false)
    expect(notes).toEqual([INSTALLING])
  })
})
