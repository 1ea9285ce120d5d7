import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import {
  bakeFailureCode,
  bakeFailure as bakeFailureSchema,
  POD_FAILURE_CODES,
  PROBLEM_CODES,
} from '../../apis/bake.ts'
import { bakeFailure, failureReason, MAX_ATTEMPTS, nextAttemptAt } from './outcome.ts'

const PASSING_IN_POD: ReadonlySet<string> = new Set([
  'secret_unreadable',
  'unreachable',
  'dns_failed',
  'rate_limited',
])
const NOW = Date.UTC(2026, 0, 31, 12)

describe('a failure', () => {
  test.for(bakeFailureCode.options)('%s says what to do', (code) => {
    const failure = bakeFailure({ step: 'pull', code, message: 'no' })
    expect(failure.fix).toMatch(/^[A-Z][^.]{15,}\. .{15,}\.$/s)
    expect(bakeFailureSchema.safeParse(failure).error).toBeUndefined()
    expect(failureReason(code)).toMatch(/^([A-Z][a-z]+)+$/)
  })

  test('has a row in the page of templates, for each code', () => {
    const page = readFileSync(new URL('../../../docs/reference/box-template.md', import.meta.url), 'utf8')
    const rows = [...page.matchAll(/^\| `([a-z_]+)` \| [^|]+ \| [^|]+ \|$/gm)].map(([, code]) => code)
    expect(rows.filter((code) => bakeFailureCode.safeParse(code).success).sort()).toEqual(
      [...bakeFailureCode.options].sort(),
    )
  })

  test.for(['canceled', 'no_result'] as const)('%s says how to see which box is there', (code) => {
    expect(bakeFailure({ step: 'start', code, message: 'no' }).fix).toContain(
      "compare `bake` in the output's credentials.json with status.bake.job",
    )
  })

  test('keeps the words of the tool, with their lines, and without what controls a terminal', () => {
    const message = 'errors:\r\ndenied: \u001b[31mrequested access\u0007\n\tunauthorized\n'
    expect(bakeFailure({ step: 'pull', code: 'no_pull_permission', message }).message).toBe(
      'errors:\ndenied:  [31mrequested access\n unauthorized',
    )
  })

  test('has at most 2,048 characters of them, and no half ones', () => {
    const { message } = bakeFailure({
      step: 'pull',
      code: 'tool_failed',
      message: `a${'\u{1f600}'.repeat(3000)}`,
    })
    expect(message.length).toBe(2047)
    expect(message.isWellFormed()).toBe(true)
    const lines = `${'a'.repeat(1000)}\n${'b'.repeat(1046)}\u{1f600}`
    const cut = bakeFailure({ step: 'pull', code: 'tool_failed', message: lines }).message
    expect(cut).toBe(`${lines.slice(0, 2047)}\ufffd`)
  })

  test('is one word as the reason of a condition', () => {
    expect(failureReason('wrong_credentials')).toBe('WrongCredentials')
    expect(failureReason('ecr_region_mismatch')).toBe('EcrRegionMismatch')
  })
})

describe('a quota', () => {
  const forbidden = (words: string) => `Error creating: pods "shop-1-x" is forbidden: ${words}`
  const fixOf = (words: string) =>
    bakeFailure({ step: 'start', code: 'quota', message: forbidden(words) }).fix
  const retryOf = (words: string) =>
    nextAttemptAt({ code: 'quota', attempts: 1, message: forbidden(words) }, NOW)

  test.for([
    'failed quota: storage: must specify requests.ephemeral-storage for: bake',
    'failed quota: storage: must specify limits.ephemeral-storage for: bake',
    'failed quota: all: must specify cpu for: bake; memory for: bake',
    'failed quota: gpu: must specify limits.memory for: bake',
  ])('that needs more than the Pod says asks for no higher quota, and for no retry: %s', (words) => {
    expect(fixOf(words)).toMatch(/covers a resource that the bake's Pod does not specify.*LimitRange/)
    expect(fixOf(words)).not.toMatch(/raise the quota/i)
    expect(retryOf(words)).toBeUndefined()
  })

  test('that a priority class needs asks for that, and for no retry', () => {
    const words = 'insufficient quota to match these scopes: [{PriorityClass In [batch]}]'
    expect(fixOf(words)).toMatch(/priority class.*DAVIT_BAKE_PRIORITY_CLASS/)
    expect(retryOf(words)).toBeUndefined()
  })

  test('whose usage is not known yet asks for patience', () => {
    const words = 'status unknown for quota: all, resources: pods'
    expect(fixOf(words)).toContain('has not yet calculated')
    expect(retryOf(words)).toBe(NOW + 30_000)
  })

  test.for([
    'exceeded quota: pods, requested: pods=1, used: pods=3, limited: pods=3',
    'exceeded quota: disk, requested: requests.ephemeral-storage=20Gi, used: 5Gi, limited: 10Gi',
  ])('that is used up asks for a higher one, and is tried again: %s', (words) => {
    expect(fixOf(words)).toContain('Raise the quota')
    expect(retryOf(words)).toBe(NOW + 30_000)
  })

  test.for([
    'failed quota: q: must specify cpu',
    'insufficient quota to match these scopes: []',
    'status unknown for quota: q',
  ])('says what to do in words that fit the status: %s', (words) => {
    const failure = bakeFailure({ step: 'start', code: 'quota', message: words })
    expect(failure.fix).toMatch(/^[A-Z][^.]{15,}\. .{15,}\.$/s)
    expect(bakeFailureSchema.safeParse(failure).error).toBeUndefined()
  })
})

describe('trying again', () => {
  test('is for what passes, after half a minute and after two, three times in all', () => {
    const waits = [1, 2, 3, 4].map((attempts) => nextAttemptAt({ code: 'evicted', attempts }, NOW))
    expect(waits).toEqual([NOW + 30_000, NOW + 120_000, undefined, undefined])
    expect(MAX_ATTEMPTS).toBe(3)
  })

  test.for([
    'evicted',
    'quota',
    'bake_image_missing',
    'no_pod',
    'unschedulable',
    'not_started',
    'service_account_missing',
    'secret_unreadable',
    'unreachable',
    'dns_failed',
  ] as const)('is for %s', (code) => {
    expect(nextAttemptAt({ code, attempts: 1 }, NOW)).toBe(NOW + 30_000)
  })

  test('is for a registry that wants fewer requests, later', () => {
    const waits = [1, 2, 3].map((attempts) => nextAttemptAt({ code: 'rate_limited', attempts }, NOW))
    expect(waits).toEqual([NOW + 900_000, NOW + 7_200_000, undefined])
  })

  // A wrong password that is tried again and again locks an account.
  test.for([
    ...POD_FAILURE_CODES.filter((code) => !PASSING_IN_POD.has(code)),
    ...PROBLEM_CODES.filter((code) => code !== 'service_account_missing'),
    'out_of_memory',
    'pod_rejected',
    'no_result',
  ] as const)('is not for %s', (code) => {
    expect(nextAttemptAt({ code, attempts: 1 }, NOW)).toBeUndefined()
  })
})
