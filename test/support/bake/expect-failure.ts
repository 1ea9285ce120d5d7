/** Expects a failed bake: its code, its step, and the tool's output in the status. */

import { appendFileSync, existsSync } from 'node:fs'
import { expect } from 'vitest'
import type { BakeFailureCode, BakeResult, BakeStep } from '../../../src/apis/bake.ts'
import { bakeFailure } from '../../../src/boxes/controller/outcome.ts'
import type { FailureBed, Given } from './failure-bed.ts'

export type FailureRow = {
  name: string
  given: () => Given | Promise<Given>
  /** `verified`: the expected statement about the credential; absent: none. */
  want: { step: BakeStep; code: BakeFailureCode; message: RegExp; verified?: boolean }
}

type BakeFailure = NonNullable<BakeResult['failure']>

export async function expectFailure(bed: FailureBed, { name, given, want }: FailureRow): Promise<void> {
  const { step, code, message, verified } = await bed.failure(await given())
  expect({ step, code, message }).toEqual({
    step: want.step,
    code: want.code,
    message: expect.stringMatching(want.message),
  })
  expect(verified?.ok).toBe(want.verified)
  if (verified?.ok === false) expect(verified.code).toBe(want.code)
  recordFailure(name, { step, code, message })
}

/** Appends the message of a failure to a table in a file, if the environment names one. */
export function recordFailure(name: string, failure: BakeFailure | undefined): void {
  if (!failure) throw new Error(`${name}: it does not say why`)
  const { step, code, message, fix } = bakeFailure(failure)
  expect(fix).not.toBe('')
  const file = process.env.BAKE_FAILURES_FILE
  if (file === undefined) return
  if (!existsSync(file))
    appendFileSync(file, '| Given | Code, step | Message | Fix |\n| --- | --- | --- | --- |\n')
  const cells = [name, `\`${code}\`, ${step}`, message, fix]
  const texts = cells.map((text) => text.replaceAll('|', '\\|').replaceAll('\n', '<br>'))
  appendFileSync(file, `| ${texts.join(' | ')} |\n`)
}
