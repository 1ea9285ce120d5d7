/** Davit asks for its own identity in its own region, whatever regions organizations name. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type AccountsBed, startAccountsBed } from '../../../test/support/aws/accounts-bed.ts'

const ENVIRONMENT = ['AWS_REGION', 'AWS_PROFILE', 'AWS_CONFIG_FILE', 'AWS_SHARED_CREDENTIALS_FILE'] as const

let bed: AccountsBed
let folder: string
let before: Record<string, string | undefined>

beforeEach(async () => {
  before = Object.fromEntries(ENVIRONMENT.map((name) => [name, process.env[name]]))
  folder = mkdtempSync(join(tmpdir(), 'davit-region-'))
  for (const name of ENVIRONMENT) delete process.env[name]
  process.env.AWS_CONFIG_FILE = join(folder, 'config')
  process.env.AWS_SHARED_CREDENTIALS_FILE = join(folder, 'credentials')
  bed = await startAccountsBed({ operatorActions: ['sts:GetCallerIdentity'] })
})

afterEach(async () => {
  await bed.stop()
  for (const name of ENVIRONMENT) {
    if (before[name] === undefined) delete process.env[name]
    else process.env[name] = before[name]
  }
  rmSync(folder, { recursive: true })
})

async function regionOfSelf(): Promise<string | undefined> {
  // Organizations in other regions come first.
  for (const region of ['eu-central-1', 'ap-southeast-2', 'cn-north-1'])
    await bed.clock.rush(bed.cloud.identify(bed.access('acme', { region })).catch(() => undefined))
  const { arn } = await bed.clock.rush(bed.cloud.self())
  expect(arn).toBe('arn:aws:iam::111111111111:user/davit')
  return bed.aws.trail.entries({ operation: 'GetCallerIdentity' }).at(-1)?.region
}

test.each(['eu-west-1', 'us-west-2', 'sa-east-1'])('the region of the environment: %s', async (region) => {
  process.env.AWS_REGION = region
  expect(await regionOfSelf()).toBe(region)
})

test('the region of a profile', async () => {
  writeFileSync(join(folder, 'config'), '[default]\nregion = ca-central-1\n')
  expect(await regionOfSelf()).toBe('ca-central-1')
})

test('without a region, the one that every account has', async () => {
  expect(await regionOfSelf()).toBe('us-east-1')
})
