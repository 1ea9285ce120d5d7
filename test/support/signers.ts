import { Webhook } from 'standardwebhooks'
import type { ReceivedRequest } from './receiver.ts'

/**
 * The secrets with which a request was signed, by an independent implementation: for each signature in its header the index in
 * `secrets`, or -1. The age of its time stamp is not checked.
 */
export function signersOf(request: ReceivedRequest, secrets: readonly string[]): number[] {
  const id = String(request.headers['webhook-id'])
  const at = new Date(Number(request.headers['webhook-timestamp']) * 1000)
  const expected = secrets.map((secret) => new Webhook(secret).sign(id, at, request.body.toString('utf8')))
  return String(request.headers['webhook-signature'])
    .split(' ')
    .map((signature) => expected.indexOf(signature))
}
