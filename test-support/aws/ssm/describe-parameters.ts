/** Source: SSM API Reference, DescribeParameters. */

import { z } from 'zod'
import type { Parameter } from '../account.ts'
import { operation } from '../call.ts'
import { pageOf } from './pages.ts'
import { seenAt, storeOf } from './parameter-access.ts'
import { checkFilters, filterInput, passes } from './parameter-filters.ts'

const LARGEST_PAGE = 50
const USUAL_PAGE = 10

export const describeParameters = operation('DescribeParameters', {
  family: 'describes',
  input: z.strictObject({
    ParameterFilters: z.array(filterInput).default([]),
    MaxResults: z.int().min(1).max(LARGEST_PAGE).default(USUAL_PAGE),
    NextToken: z.string().optional(),
  }),
  run(call, { ParameterFilters, MaxResults, NextToken }) {
    const store = storeOf(call)
    // The only resource of this permission is `*`.
    const { id, partition } = store.account
    call.authorize({
      action: 'ssm:DescribeParameters',
      resource: `arn:${partition.name}:ssm:${store.region}:${id}:*`,
      context: call.context,
    })
    checkFilters(ParameterFilters)
    const found = store.list(seenAt(call)).flatMap((parameter) => {
      const latest = parameter.versions.at(-1)
      return latest && passes(parameter, latest, ParameterFilters) ? [parameter] : []
    })
    const { items, token } = pageOf(found, ({ name }) => name, {
      size: MaxResults,
      token: NextToken,
      scope: [id, store.region, ParameterFilters],
      isShort: call.pagesAreShort,
    })
    return {
      Parameters: items.map((parameter) => metadata(parameter, store.arn(parameter.name))),
      NextToken: token,
    }
  },
})

function metadata({ name, versions }: Parameter, arn: string) {
  const latest = versions.at(-1)
  return {
    Name: name,
    ARN: arn,
    Type: latest?.type,
    KeyId: latest?.keyId,
    LastModifiedDate: (latest?.modifiedAt ?? 0) / 1000,
    LastModifiedUser: latest?.modifiedBy,
    Description: latest?.description,
    Version: latest?.version,
    Tier: latest?.tier,
    Policies: [],
    DataType: 'text',
  }
}
