/** Number of the life of the sending process; Davit itself never sends this header. */
export const SENDER_HEADER = 'x-fleet-sender'
