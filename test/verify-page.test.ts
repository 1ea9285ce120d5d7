/** docs/guides/verify-deliveries.md tells the truth: its programs take what Davit has signed, and nothing else. */

import { createRequire } from 'node:module'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { signatureHeader } from '../src/webhooks/sender/signature.ts'
import { casesFor } from './verify/cases.ts'
import { LANGUAGES } from './verify/languages.ts'
import type { Verifier } from './verify/receiver-process.ts'
import { NotHere } from './verify/run-program.ts'
import { EVENT_TYPE, newSecret, Signer } from './verify/signed-deliveries.ts'
import { installed, snippetOf, VERIFY_PAGE } from './verify/snippets.ts'

/** The first time, something is downloaded and compiled. */
const START_LIMIT_MS = 300_000
const TOO_LARGE_BYTES = 310 * 1024

/** Elsewhere a language that the machine lacks is left out, and counted as skipped. */
const NEEDS_ALL = process.env.VERIFY_LANGUAGES === 'all' || process.env.CI !== undefined

const secret = newSecret()
let signer: Signer

beforeAll(async () => {
  signer = await Signer.start()
})
afterAll(() => signer.close())

for (const language of LANGUAGES) {
  describe(`the program in ${language.name}`, () => {
    let program: Verifier | undefined
    let missing: string | undefined

    beforeAll(async () => {
      try {
        program = await language.start(secret)
      } catch (error) {
        if (NEEDS_ALL || !(error instanceof NotHere)) throw error
        missing = error.message
      }
    }, START_LIMIT_MS)
    afterAll(() => program?.stop())

    it('takes what Davit has signed, and nothing else', async ({ skip }) => {
      if (!program) return skip(missing)
      for (const { what, taken, sent } of await casesFor(signer, secret))
        expect({ what, taken: await program.takes(sent) }).toEqual({ what, taken })
    })

    if (!language.isReceiver) return

    it('works once on what comes twice', async ({ skip }) => {
      if (!program) return skip(missing)
      const [one, two] = [await signer.deliver([secret]), await signer.deliver([secret])]
      for (const sent of [one, two, one]) expect(await program.takes(sent)).toBe(true)
      const lines = program.worked().filter((line) => line.includes(one.id) || line.includes(two.id))
      expect(lines).toEqual([one, two].map(({ id }) => `${EVENT_TYPE} ${id}`))
    })

    it('refuses a body that is too large, and goes on', async ({ skip }) => {
      if (!program) return skip(missing)
      const sent = await signer.deliver([secret])
      expect(await program.takes({ ...sent, body: Buffer.alloc(TOO_LARGE_BYTES, ' ') })).toBe(false)
      expect(await program.takes(sent)).toBe(true)
    })
  })
}

describe('the page', () => {
  it('has an example that is signed with the secret beside it', () => {
    const request = snippetOf('http')
    const header = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(request)?.[1] ?? ''
    const body = request.slice(request.indexOf('\n\n') + 2).trimEnd()
    const [example = ''] = /whsec_[A-Za-z0-9+/=]+/.exec(VERIFY_PAGE) ?? []
    const message = {
      id: header('webhook-id'),
      timestamp: Number(header('webhook-timestamp')),
      body: Buffer.from(body),
    }
    expect(signatureHeader(message, [example])).toBe(header('webhook-signature'))
  })

  it('names the version of the library that is tried here', () => {
    const { version } = createRequire(import.meta.url)('standardwebhooks/package.json') as { version: string }
    expect(installed(/npm install standardwebhooks@([\d.]+)`/)).toBe(version)
  })
})
