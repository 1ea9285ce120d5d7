import type { Principal } from './account.ts'

/** What is known of the session in which a call was made. */
export type TrailSession = {
  roleArn: string
  name: string
  /** The inline session policy as it was sent. */
  policy: string | undefined
  tags: Readonly<Record<string, string>>
  /** That AssumeRole came with. */
  externalId: string | undefined
  /** ARN of who assumed the role. */
  caller: string
}

/** One call, as CloudTrail would have it, refused ones too. */
export type TrailEntry = {
  /** Milliseconds since 1970. */
  at: number
  requestId: string
  /** As in the scope of the signature: `ssm`. */
  service: string
  operation: string
  region: string
  /** Whose account it is about: of AssumeRole, the role's. */
  account: string
  /** ARN of who asked. */
  principal: string
  session: TrailSession | undefined
  /** Without values of parameters. */
  parameters: Readonly<Record<string, unknown>>
  host: string
  userAgent: string
  /** What it was answered with; absent: success. `ConnectionCut` where it was not answered. */
  error?: { code: string; message: string; status: number }
}

const MAX_ENTRIES = 100_000

/** The latest calls; the oldest go first. */
export class Trail {
  #entries: TrailEntry[] = []
  #dropped = 0

  add(entry: TrailEntry): void {
    this.#entries.push(entry)
    if (this.#entries.length <= MAX_ENTRIES) return
    this.#dropped += MAX_ENTRIES / 2
    this.#entries = this.#entries.slice(MAX_ENTRIES / 2)
  }

  /** @param wanted fields that entries must have, such as `{ operation: 'PutParameter' }` */
  entries(
    wanted: Partial<Pick<TrailEntry, 'account' | 'operation' | 'region' | 'service'>> = {},
  ): TrailEntry[] {
    const fields = Object.entries(wanted)
    return this.#entries.filter((entry) =>
      fields.every(([name, value]) => entry[name as 'account'] === value),
    )
  }

  /** How many are not there any more. */
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
