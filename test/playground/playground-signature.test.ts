import { expect, it } from 'vitest'
import { readSecret } from '../../playground/organization.ts'
import { runPlayground } from '../../playground/playground.ts'
import { temporaryFolder } from '../support/playground-process.ts'

const TEST_LIMIT_MS = 120_000
const ANOTHER_SECRET = `whsec_${'A'.repeat(32)}`

it('a run whose receiver gets a signature that does not verify fails, and says so', {
  timeout: TEST_LIMIT_MS,
}, async () => {
  await using folder = await temporaryFolder()
  const lines: string[] = []
  const code = await runPlayground(
    { once: true, realWaits: false, controllers: 1, bakes: true, state: folder.path },
    {
      stopping: new AbortController().signal,
      stop: () => undefined,
      write: (line) => lines.push(line),
      colored: false,
      readSecret: async (api, endpoint) =>
        endpoint === 'audit' ? ANOTHER_SECRET : readSecret(api, endpoint),
    },
  )
  expect(code).toBe(1)
  expect(lines.filter((line) => / audit \(ordered\) .* NOT VERIFIED$/.test(line))).not.toEqual([])
  expect(lines.filter((line) => / billing .* NOT VERIFIED$/.test(line))).toEqual([])
  expect(lines.at(-1)).toBe('A signature failed verification. This is a bug in Davit.')
})
