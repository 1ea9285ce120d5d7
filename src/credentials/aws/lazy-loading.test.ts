import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'

const run = promisify(execFile)
const HERE = fileURLToPath(new URL('./', import.meta.url))

/** What a process loads that makes the adapter, and calls it if told to. */
const PROGRAM = `
import { registerHooks } from 'node:module'
const loaded = new Set()
registerHooks({
  resolve(specifier, context, next) {
    const name = /^@(aws-sdk|smithy)\\/[^/]+/.exec(specifier)
    if (name) loaded.add(name[0])
    return next(specifier, context)
  },
})
const { CloudAccounts } = await import(process.argv[1] + 'cloud-accounts.ts')
const { createRegistryTokens } = await import(process.argv[1] + 'registry-logins.ts')
const after = (ms, run) => {
  const timer = setTimeout(run, ms)
  return () => clearTimeout(timer)
}
const clock = { now: Date.now, monotonic: () => performance.now(), after }
const world = { clock, random: { fraction: () => 0, bytes: (n) => new Uint8Array(n) }, metrics: { cloudCall() {}, cloudRetry() {}, cloudTurn() {} } }
const tokens = createRegistryTokens({ ...world, userAgent: 'davit/test' })
const turns = { acquire: async () => undefined, slowDown() {} }
const sessionRules = () => ({ name: 'davit', policy: '{}', tags: {} })
const cloud = new CloudAccounts({ ...world, userAgent: 'davit/test', sessionRules, writeTurns: () => turns, listTurns: () => turns })
const before = [...loaded]
if (process.argv[2] === 'call') {
  const access = { organization: 'acme', organizationUid: 'uid', roleArn: 'arn:aws:iam::222222222222:role/davit', region: 'eu-west-1', externalId: 'davit-acme' }
  await cloud.remove(access, '/davit/acme/rc_one').catch(() => undefined)
}
cloud.close()
tokens.close()
console.log(JSON.stringify({ before, after: [...loaded] }))
`

async function loadedBy(...args: string[]): Promise<{ before: string[]; after: string[] }> {
  const env = {
    ...process.env,
    AWS_ENDPOINT_URL: 'http://127.0.0.1:1',
    AWS_ACCESS_KEY_ID: 'k',
    AWS_SECRET_ACCESS_KEY: 's',
  }
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', PROGRAM, HERE, ...args], {
    env,
  })
  return JSON.parse(stdout)
}

it('loads nothing of the SDK before the first call', async () => {
  expect(await loadedBy()).toEqual({ before: [], after: [] })
})

it('loads it with the first call', async () => {
  const { before, after } = await loadedBy('call')
  expect(before).toEqual([])
  expect(after).toContain('@aws-sdk/client-sts')
  expect(after).not.toContain('@aws-sdk/client-ecr')
})
