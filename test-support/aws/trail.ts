import type { Principal } from './account.ts'

/** Facts about the session of a call. */
export type TrailSession = {
  roleArn: string
  name: string
  /** The inline session policy as it was sent. */
  policy: string | undefined
  tags: Readonly<Record<string, string>>
  /** The external id of AssumeRole. */
  externalId: string | undefined
  /** ARN of the principal that assumed the role. */
  caller: string
}

/** One call in the style of CloudTrail, including rejected ones. */
export type TrailEntry = {
  /** Milliseconds since 1970. */
  at: number
  requestId: string
  /** As in the scope of the signature: `ssm`. */
  service: string
  operation: string
  region: string
  /** The account that the call concerns; for AssumeRole, the role's. */
  account: string
  /** ARN of the caller. */
  principal: string
  session: TrailSession | undefined
  /** Without the values of parameters. */
  parameters: Readonly<Record<string, unknown>>
  host: string
  userAgent: string
  /** The error of the answer; absent: success. `ConnectionCut` if there was no answer. */
  error?: { code: string; message: string; status: number }
}

const MAX_ENTRIES = 100_000

/** The latest calls; the oldest are dropped first. */
export class Trail {
  #entries: TrailEntry[] = []
  #dropped = 0

  add(entry: TrailEntry): void {
    this.#entries.push(entry)
    if (this.#entries.length <= MAX_ENTRIES) return
    this.#dropped += MAX_ENTRIES / 2
    this.#entries = this.#entries.slice(MAX_ENTRIES / 2)
  }

  /** @param wanted fields that entries must match, such as `{ operation: 'PutParameter' }` */
  entries(
    wanted: Partial<Pick<TrailEntry, 'account' | 'operation' | 'region' | 'service'>> = {},
  ): TrailEntry[] {
    const fields = Object.entries(wanted)
    return this.#entries.filter((entry) =>
      fields.every(([name, value]) => entry[name as 'account'] === value),
    )
  }

  /** How many have been dropped. */
  get dropped(): number {
    return this.#dropped
  }

  clear(): void {
    this.#entries = []
    this.#dropped = 0
  }
}

export function trailSession({ session }: Principal): TrailSession | undefined {
  return (
    session && {
      roleArn: session.role.arn,
      name: session.name,
      policy: session.policyText,
      tags: Object.fromEntries(session.tags),
      externalId: session.externalId,
      caller: session.caller,
    }
  )
}
