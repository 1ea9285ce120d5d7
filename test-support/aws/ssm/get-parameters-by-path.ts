/** Source: SSM API Reference, GetParametersByPath. */
import { z } from 'zod'
import { operation } from '../call.ts'
import { pageOf } from './pages.ts'
import { authorizeParameter, seenAt, storeOf } from './parameter-access.ts'
import { checkPath, isUnder } from './parameter-filters.ts'
import { parameterOutput } from './read-version.ts'

const LARGEST_PAGE = 10

export const getParametersByPath = operation('GetParametersByPath', {
  family: 'reads',
  input: z.strictObject({
    Path: z.string().min(1).max(2_048),
    Recursive: z.boolean().default(false),
    WithDecryption: z.boolean().default(false),
    MaxResults: z.int().min(1).max(LARGEST_PAGE).default(LARGEST_PAGE),
    NextToken: z.string().optional(),
  }),
  run(call, { Path, Recursive, WithDecryption, MaxResults, NextToken }) {
    // Only the permission on the path counts, not on the parameters below it: a deny on one of them has no effect.
    authorizeParameter(call, 'ssm:GetParametersByPath', Path.length > 1 ? Path.replace(/\/$/, '') : Path, {
      'ssm:Recursive': String(Recursive),
    })
    checkPath(Path)
    const store = storeOf(call)
    const found = store.list(seenAt(call)).filter(({ name }) => isUnder(name, Path, Recursive))
    const { items, token } = pageOf(found, ({ name }) => name, {
      size: MaxResults,
      token: NextToken,
      scope: [store.account.id, store.region, Path, Recursive],
      isShort: call.pagesAreShort,
    })
    return {
      Parameters: items.map((parameter) => parameterOutput(call, parameter, undefined, WithDecryption)),
      NextToken: token,
    }
  },
})
