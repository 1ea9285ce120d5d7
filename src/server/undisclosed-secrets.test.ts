import { expect, test } from 'vitest'
import { UndisclosedSecrets } from './endpoint-writes.ts'

const done = async () => 'done'
const fails = async () => {
  throw new Error('not now')
}

test('of several who would show a secret at a time one may, and nobody afterwards', async () => {
  const unseen = new UndisclosedSecrets()
  unseen.add('whsec_1')
  const asked = await Promise.all([1, 2, 3].map(() => unseen.whenDone('whsec_1', false, done)))
  expect(asked.map(({ isUndisclosed }) => isUndisclosed)).toEqual([true, false, false])
  expect(unseen.has('whsec_1')).toBe(false)
})

test('a secret is unseen again when it could not be shown, and only if it was before', async () => {
  const unseen = new UndisclosedSecrets()
  await expect(unseen.whenDone('whsec_new', true, fails)).rejects.toThrow('not now')
  await expect(unseen.whenDone('whsec_shown', false, fails)).rejects.toThrow('not now')
  expect([unseen.has('whsec_new'), unseen.has('whsec_shown')]).toEqual([true, false])
  expect(await unseen.whenDone('whsec_new', false, done)).toEqual({ result: 'done', isUndisclosed: true })
})
