/** Source: ECR API Reference, GetAuthorizationToken. */
import { z } from 'zod'
import { operation } from '../call.ts'

export const getAuthorizationToken = operation('GetAuthorizationToken', {
  family: 'ecr',
  input: z.strictObject({
    registryIds: z
      .array(z.string().regex(/^[0-9]{12}$/))
      .min(1)
      .max(10)
      .optional(),
  }),
  run(call, { registryIds }) {
    call.authorize({ action: 'ecr:GetAuthorizationToken', resource: '*', context: call.context })
    const { account } = call.principal
    // One entry for each registry that is asked for, though each token opens all registries that the caller may use.
    return {
      authorizationData: (registryIds ?? [account.id]).map((id) => {
        const { password, expiresAt } = call.registryTokens.issue(call.principal, call.region, call.now)
        return {
          authorizationToken: Buffer.from(`AWS:${password}`).toString('base64'),
          expiresAt: expiresAt / 1000,
          proxyEndpoint: `https://${id}.dkr.ecr.${call.region}.${account.partition.suffixes[0]}`,
        }
      }),
    }
  },
})
