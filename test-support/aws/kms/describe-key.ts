/** Source: KMS API Reference, DescribeKey. */

import { z } from 'zod'
import { DEFAULT_KEY } from '../account.ts'
import { AwsError } from '../aws-error.ts'
import { operation } from '../call.ts'
import { authorizeKey } from './authorize-key.ts'

export const describeKey = operation('DescribeKey', {
  family: 'kms',
  input: z.strictObject({ KeyId: z.string().min(1).max(2_048) }),
  run(call, { KeyId }) {
    const keys = call.principal.account.keys(call.region)
    const key = keys.find(KeyId)
    if (!key) throw AwsError.coded('NotFoundException', `Key '${KeyId}' does not exist`)
    authorizeKey(call, key, 'kms:DescribeKey')
    return {
      KeyMetadata: {
        AWSAccountId: call.principal.account.id,
        KeyId: key.id,
        Arn: key.arn,
        Enabled: key.state === 'Enabled',
        KeyState: key.state,
        KeyUsage: 'ENCRYPT_DECRYPT',
        KeySpec: key.isSymmetric ? 'SYMMETRIC_DEFAULT' : 'RSA_4096',
        KeyManager: keys.find(DEFAULT_KEY) === key ? 'AWS' : 'CUSTOMER',
      },
    }
  },
})
