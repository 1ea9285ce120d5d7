import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { SecretText } from '../../lib/redact.ts'
import { openAuthFile } from './skopeo.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'davit-auth-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

const login = { username: 'bot', password: new SecretText('pass:wörd') }

describe('the file with a login', () => {
  it('has no name while it holds the login, and only its owner may read it', async () => {
    const file = await openAuthFile(folder, 'registry.test:5000', login)
    try {
      expect(readdirSync(folder)).toEqual([])
      expect(((await file.stat()).mode & 0o777).toString(8)).toBe('600')
      expect(JSON.parse(readFileSync(`/proc/self/fd/${file.fd}`, 'utf8'))).toEqual({
        auths: { 'registry.test:5000': { auth: Buffer.from('bot:pass:wörd').toString('base64') } },
      })
    } finally {
      await file.close()
    }
  })

  it('logs nobody in where there is no login', async () => {
    const file = await openAuthFile(folder, 'registry.test', undefined)
    try {
      expect(JSON.parse(readFileSync(`/proc/self/fd/${file.fd}`, 'utf8'))).toEqual({ auths: {} })
    } finally {
      await file.close()
    }
  })
})
