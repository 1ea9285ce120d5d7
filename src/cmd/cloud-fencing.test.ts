import { expect, it } from 'vitest'
import type { ControllerDependencies } from './dependencies.ts'
import { withCloudFencing } from './leader-tasks.ts'

it('parameters are neither written nor removed while another replica may do that, and are read all the time', async () => {
  const calls: string[] = []
  const cloud = new Proxy({} as ControllerDependencies['cloud'], {
    get: (_, name) => async () => void calls.push(String(name)),
  })
  let mayWrite = false
  const fence = withCloudFencing(cloud, () => mayWrite)
  const access = {} as Parameters<typeof cloud.remove>[0]
  const writes = [
    () => fence.create(access, {} as Parameters<typeof cloud.create>[1]),
    () => fence.replace(access, 'a', {} as Parameters<typeof cloud.replace>[2]),
    () => fence.remove(access, 'a'),
  ]
  for (const write of writes)
    await expect(write()).rejects.toMatchObject({ code: 'Canceled', unsure: false, remedy: 'retry' })
  expect(calls).toEqual([])
  await fence.list(access, { prefix: '', limit: 1 })
  await fence.tagsOf(access, 'a')
  mayWrite = true
  for (const write of writes) await write()
  expect(calls).toEqual(['list', 'tagsOf', 'create', 'replace', 'remove'])
})
