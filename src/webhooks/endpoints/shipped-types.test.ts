import { expect, test, vi } from 'vitest'
import { builtinEventTypes } from '../../apis/builtin-event-types.ts'
import { ApiError } from '../../kube/client.ts'
import { ensureBuiltinEventTypes } from './event-types.ts'

test('of the event types that ship those are made that are missing, and a refusal stops none of the others', async () => {
  const made: string[] = []
  const names = builtinEventTypes.map(({ metadata }) => metadata.name)
  const [known = '', taken = '', refused = '', omitted = '', ...rest] = names
  const create = async (_type: unknown, object: { metadata?: { name?: string } }) => {
    const name = object.metadata?.name ?? ''
    if (name === taken) throw new ApiError('AlreadyExists', 'taken')
    if (name === refused) throw new ApiError('Forbidden', 'refused')
    made.push(name)
    return object
  }
  const log = { info: vi.fn(), warn: vi.fn(), error: vi.fn() }
  await ensureBuiltinEventTypes({ api: { create } as never, log }, [omitted], (name) => name === known)
  expect(made).toEqual(rest)
  expect(log.warn).toHaveBeenCalledOnce()
})
