/** What the HTTP surface needs besides the services behind its routes. */

export interface KnownOrganizations {
  /** Whether a namespace is there and is an organization. */
  has(name: string): boolean
}

/** What is counted of requests, as facts. Label values are from small closed sets. */
export interface RequestMetrics {
  /** One request was answered. `route`: the operation's id, `none` where no route fits. `seconds` until the answer was complete. */
  answered(route: string, status: number, seconds: number): void
}
