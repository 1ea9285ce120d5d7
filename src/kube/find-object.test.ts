import { expect, test } from 'vitest'
import { namespaces } from '../apis/core-kinds.ts'
import { ApiError, findObject, type ListQuery } from './client.ts'
import { listObjects } from './list.ts'

const found = { metadata: { name: 'acme' } }
const getting = (get: () => Promise<typeof found>) => findObject({ get }, namespaces, { name: 'acme' })

test('an object is found, or is not there; any other answer is an error', async () => {
  expect(await getting(async () => found)).toBe(found)
  expect(await getting(() => Promise.reject(new ApiError('NotFound', 'gone')))).toBeUndefined()
  await expect(getting(() => Promise.reject(new ApiError('Forbidden', 'no')))).rejects.toThrow('no')
  await expect(getting(() => Promise.reject(new Error('NotFound')))).rejects.toThrow('NotFound')
})

test('the objects of a list come page after page, each page when it is wanted', async () => {
  const asked: [ListQuery, string | undefined][] = []
  const pages = [['a', 'b'], [], ['c']]
  const list = async (_type: unknown, query: ListQuery, from?: string) => {
    asked.push([query, from])
    const at = Number(from ?? 0)
    const items = (pages[at] ?? []).map((name) => ({ metadata: { name } }))
    return { items, resourceVersion: '7', ...(at < 2 ? { continue: String(at + 1) } : {}) }
  }
  const names: string[] = []
  for await (const { metadata } of listObjects({ list }, namespaces, { limit: 2 })) {
    names.push(metadata.name)
    if (metadata.name === 'b') expect(asked).toHaveLength(1)
  }
  expect(names).toEqual(['a', 'b', 'c'])
  expect(asked).toEqual([
    [{ limit: 2 }, undefined],
    [{ limit: 2 }, '1'],
    [{ limit: 2 }, '2'],
  ])
})
