/** What the tool is given; what it does with it is tested with the real one, in test/bake. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { type CopyOrder, createSkopeo } from './skopeo.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'davit-tool-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

/** Says which way it is to go. */
const PROGRAM = '#!/bin/sh\necho "$HTTPS_PROXY"\n'

it('has a way of its own into the network for each pull, which ends with it', async () => {
  const program = join(folder, 'tool')
  writeFileSync(program, PROGRAM, { mode: 0o755 })
  const deeds: string[] = []
  const copier = createSkopeo({
    program,
    memory: folder,
    environment: { PATH: process.env.PATH ?? '' },
    async openProxy(registry) {
      deeds.push(`opened for ${registry}`)
      return {
        environment: { HTTPS_PROXY: `http://way-of.${registry}` },
        close: async () => void deeds.push('closed'),
      }
    },
  })
  const pull = async (registry: string) => {
    const order: CopyOrder = {
      image: `${registry}/acme/api:1.0`,
      registry,
      folder,
      blobs: join(folder, 'blobs'),
      temporary: folder,
    }
    const line = (text: string) => {
      deeds.push(text)
      return text
    }
    expect(await copier.copy(order, { signal: new AbortController().signal, line })).toEqual({ ok: true })
  }
  await pull('public.test')
  await pull('private.test')
  expect(deeds).toEqual([
    'opened for public.test',
    'http://way-of.public.test',
    'closed',
    'opened for private.test',
    'http://way-of.private.test',
    'closed',
  ])
})
