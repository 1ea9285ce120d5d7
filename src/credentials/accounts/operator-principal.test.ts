import { describe, expect, test } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { type AccountProbes, CloudError } from '../cloud.ts'
import { OperatorPrincipal } from './identity.ts'

const ROLE = 'arn:aws:iam::111111111111:role/davit'

/** @param answers ARNs, or failures, in turn; the last one for good */
function bed(answers: (string | CloudError)[], given?: string) {
  const clock = new FakeClock()
  let asked = 0
  const self = async () => {
    const answer = answers[Math.min(asked, answers.length - 1)]
    asked += 1
    await new Promise((resolve) => setImmediate(resolve))
    if (answer instanceof CloudError) throw answer
    return { arn: answer ?? '' }
  }
  const principal = new OperatorPrincipal({ self } as unknown as AccountProbes, clock, given)
  return { clock, principal, asked: () => asked }
}

const REFUSED = new CloudError('permissions', 'NoIdentity', 'nobody')

describe("the operator's own identity", () => {
  test('is what its settings say, and nobody is asked', async () => {
    const { principal, asked } = bed([ROLE], 'arn:aws:iam::1:role/given')
    expect(await principal.get()).toBe('arn:aws:iam::1:role/given')
    expect(asked()).toBe(0)
  })

  test('is asked for once, and all who ask meanwhile have it', async () => {
    const { principal, asked } = bed(['arn:aws:sts::111111111111:assumed-role/davit/session'])
    const all = await Promise.all([1, 2, 3].map(() => principal.get()))
    expect(all).toEqual([ROLE, ROLE, ROLE])
    expect(await principal.get()).toBe(ROLE)
    expect(asked()).toBe(1)
  })

  test('is asked for again after a minute where it could not be had', async () => {
    const { clock, principal, asked } = bed([REFUSED, '', ROLE])
    expect(await principal.get()).toBeUndefined()
    expect(await principal.get()).toBeUndefined()
    expect(asked()).toBe(1)
    clock.advance(60_000)
    expect(await principal.get()).toBeUndefined()
    clock.advance(60_000)
    expect(await principal.get()).toBe(ROLE)
    expect(asked()).toBe(3)
  })
})
