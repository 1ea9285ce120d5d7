/** Header of an answer that repeats an earlier one. */
export function replayed(yes: boolean): { headers?: Record<string, string> } {
  return yes ? { headers: { 'idempotency-replayed': 'true' } } : {}
}
