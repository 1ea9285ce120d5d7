import { expect, it } from 'vitest'
import { createFindings } from './findings.ts'

it('a part that does not come to its end is wrong, and those after it are tried', async () => {
  const lines: string[] = []
  const findings = createFindings((line) => void lines.push(line))
  await findings.part('the first', () => Promise.reject(new Error('the pod stays Pending')))
  await findings.part('the second', async () => findings.check('a password is refused', true, 'it is'))
  expect(lines).toEqual([
    'WRONG  the first comes to its end: the pod stays Pending',
    'ok     a password is refused: it is',
  ])
  expect(findings.wrong).toBe(1)
})
