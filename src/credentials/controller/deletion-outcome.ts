/** How the removal of a parameter ended: every one ends, and what could not be removed is named (interface §4.1). */
import { type CloudFailure, failureText } from '../cloud-failure.ts'

export type DeletionOutcome =
  | { outcome: 'deleted' }
  | { outcome: 'not-found' }
  | { outcome: 'orphaned'; orphan: FailedDeletion }

/** A parameter that may still be there, with all that is needed to remove it by hand or later. */
export type FailedDeletion = {
  name: string
  account: string
  region: string
  roleArn: string
  reason: string
}

/** Why an orphan is one, where no call failed. */
export const NOT_OURS = 'its tags are not those of this organization any more'

export function failedDeletionReason(failure: CloudFailure | undefined): string {
  return failure === undefined ? NOT_OURS : failureText(failure)
}

/** For the Event that records it. */
export function deletionMessage(name: string, result: DeletionOutcome): string {
  if (result.outcome === 'deleted') return `Removed the parameter ${name}.`
  if (result.outcome === 'not-found') return `The parameter ${name} was not there any more.`
  const { account, region, reason } = result.orphan
  return (
    `Could not remove the parameter ${name} in account ${account}, region ${region}: ${reason}. It is on the list of ` +
    'orphaned parameters and tried again; an administrator of the account can remove it.'
  )
}
