/** Source: SSM API Reference, GetParameterHistory. */

import { z } from 'zod'
import type { ParameterVersion } from '../account.ts'
import { type Call, operation } from '../call.ts'
import { pageOf } from './pages.ts'
import { authorizeParameter, seenParameter, storeOf } from './parameter-access.ts'
import { valueFor } from './read-version.ts'

const LARGEST_PAGE = 50

export const getParameterHistory = operation('GetParameterHistory', {
  family: 'reads',
  input: z.strictObject({
    Name: z.string().trim().min(1).max(2_048),
    WithDecryption: z.boolean().default(false),
    MaxResults: z.int().min(1).max(LARGEST_PAGE).default(LARGEST_PAGE),
    NextToken: z.string().optional(),
  }),
  run(call, { Name, WithDecryption, MaxResults, NextToken }) {
    authorizeParameter(call, 'ssm:GetParameterHistory', Name)
    const { versions } = seenParameter(call, Name)
    const { items, token } = pageOf(versions, ({ version }) => String(version).padStart(12, '0'), {
      size: MaxResults,
      token: NextToken,
      scope: [storeOf(call).arn(Name)],
      isShort: call.pagesAreShort,
    })
    return {
      Parameters: items.map((version) => versionOutput(call, Name, version, WithDecryption)),
      NextToken: token,
    }
  },
})

function versionOutput(call: Call, name: string, version: ParameterVersion, decrypts: boolean) {
  return {
    Name: name,
    Type: version.type,
    KeyId: version.keyId,
    LastModifiedDate: version.modifiedAt / 1000,
    LastModifiedUser: version.modifiedBy,
    Description: version.description,
    Value: valueFor(call, name, version, decrypts),
    Version: version.version,
    Labels: version.labels,
    Tier: version.tier,
    Policies: [],
    DataType: 'text',
  }
}
