import { CloudError } from '../cloud-error.ts'

/** Account of an ARN as `arn:aws:iam::111122223333:role/davit`. Throws CloudError of the remedy `spec`. */
export function accountOfArn(arn: string): string {
  const account = /^arn:[a-z0-9-]+:(?:iam|sts)::(\d{12}):/.exec(arn)?.[1]
  if (account === undefined)
    throw new CloudError('spec', 'ValidationError', 'The ARN of the role names no account.')
  return account
}
