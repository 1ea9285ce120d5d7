import type { Received } from '../../playground/receiver.ts'

/** A first attempt that the receiver of the playground has accepted. */
export const RECEIVED: Received = {
  at: new Date(2026, 0, 2, 3, 4, 5),
  endpoint: 'billing',
  type: 'environment.started',
  id: 'msg_1',
  attempt: 1,
  verified: true,
  code: 200,
}
