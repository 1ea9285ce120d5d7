import { Webhook } from 'standardwebhooks'
import type { ReceivedRequest } from './receiver.ts'

/**
 * Which secrets a request was signed with, by an implementation that is not Davit's: for each signature of its
 * header the index in `secrets`, -1 for none of them. Whether its time stamp is young is not looked at.
 */
export function signersOf(request: ReceivedRequest, secrets: readonly string[]): number[] {
  const id = String(request.headers['webhook-id'])
  const at = new Date(Number(request.headers['webhook-timestamp']) * 1000)
  const expected = secrets.map((secret) => new Webhook(secret).sign(id, at, request.body.toString('utf8')))
  return String(request.headers['webhook-signature'])
    .split(' ')
    .map((signature) => expected.indexOf(signature))
}
