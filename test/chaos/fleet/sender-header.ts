/** Number of the life of the process that has sent a request; no part of what Davit sends otherwise. */
export const SENDER_HEADER = 'x-fleet-sender'
