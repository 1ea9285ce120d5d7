/** `reason` in plain words for the owner of the endpoint: what is wrong with the URL. */
export type UrlDecision = { ok: true } | { ok: false; reason: string }

/** Whether a URL may receive webhooks, as far as the URL alone tells; what its name resolves to is checked at each attempt. */
export interface UrlPolicy {
  check(url: string): UrlDecision
}
