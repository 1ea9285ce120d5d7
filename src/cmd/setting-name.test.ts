import { expect, it } from 'vitest'
import { withSettingName } from './process.ts'

it('names the setting of what went wrong, and keeps what that was', async () => {
  const cause = new Error('listen EADDRINUSE: address already in use 127.0.0.1:9090')
  const failed = withSettingName('DAVIT_OPS_ADDRESS', Promise.reject(cause))
  await expect(failed).rejects.toMatchObject({ message: `DAVIT_OPS_ADDRESS: ${cause.message}`, cause })
  expect(await withSettingName('DAVIT_OPS_ADDRESS', Promise.resolve(9090))).toBe(9090)
})
