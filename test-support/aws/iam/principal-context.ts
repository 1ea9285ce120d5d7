import type { Principal } from '../account.ts'
import { Context } from './context.ts'

/** The condition keys of the principal, region and time, which every request has. */
export function principalContext(principal: Principal, region: string, now: number): Context {
  const { account, arn, userId, userName, session, tags } = principal
  return new Context()
    .set('aws:CurrentTime', new Date(now).toISOString())
    .set('aws:EpochTime', String(Math.floor(now / 1000)))
    .set('aws:PrincipalAccount', account.id)
    .set('aws:PrincipalArn', session?.role.arn ?? arn)
    .set('aws:PrincipalType', session ? 'AssumedRole' : 'User')
    .set('aws:RequestedRegion', region)
    .set('aws:SecureTransport', 'true')
    .set('aws:TokenIssueTime', session && new Date(session.issuedAt).toISOString())
    .set('aws:userid', userId)
    .set('aws:username', userName)
    .set('aws:ViaAWSService', 'false')
    .setAll('aws:PrincipalTag/', tags)
}
