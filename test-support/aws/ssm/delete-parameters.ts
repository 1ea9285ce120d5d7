/** Source: SSM API Reference, DeleteParameter and DeleteParameters. */
import { z } from 'zod'
import { operation } from '../call.ts'
import { authorizeParameter, notFound, storeOf } from './parameter-access.ts'

const name = z.string().trim().min(1).max(2_048)

export const deleteParameter = operation('DeleteParameter', {
  family: 'deletes',
  input: z.strictObject({ Name: name }),
  run(call, { Name }) {
    authorizeParameter(call, 'ssm:DeleteParameter', Name)
    const store = storeOf(call)
    if (!store.get(Name)) throw notFound()
    store.delete(Name, call.now)
    return {}
  },
})

export const deleteParameters = operation('DeleteParameters', {
  family: 'deletes',
  input: z.strictObject({ Names: z.array(name).min(1).max(10) }),
  run(call, { Names }) {
    for (const one of Names) authorizeParameter(call, 'ssm:DeleteParameters', one)
    const store = storeOf(call)
    const there = Names.filter((one) => store.get(one))
    for (const one of there) store.delete(one, call.now)
    return { DeletedParameters: there, InvalidParameters: Names.filter((one) => !there.includes(one)) }
  },
})
