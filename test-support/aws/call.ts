import type { z } from 'zod'
import type { Principal } from './account.ts'
import type { Accounts } from './accounts.ts'
import type { RegistryTokens } from './ecr/registry-tokens.ts'
import type { Context } from './iam/context.ts'
import type { AccessRequest } from './iam/evaluate.ts'
import type { RateFamily } from './rates.ts'

/** One request that is signed, readable and not throttled. */
export type Call = {
  accounts: Accounts
  principal: Principal
  region: string
  /** Milliseconds since 1970. */
  now: number
  /** How old the state is that reads of this operation see, in milliseconds. */
  lagMs: number
  /** Whether pages hold less than they could. */
  pagesAreShort: boolean
  registryTokens: RegistryTokens
  /** What is known of every request of this principal. */
  context: Context
  /** @throws AwsError unless the principal may */
  authorize(request: AccessRequest): void
}

/** One operation of a service. Its run is synchronous, so that no other comes between. */
export type Operation = {
  name: string
  family: RateFamily
  input: z.ZodType
  /** What the log shows of the input: never a secret. */
  shown(input: unknown): Readonly<Record<string, unknown>>
  /** Whose account it is about, where that is not the caller's. */
  accountOf?(input: unknown): string | undefined
  /** Who asks without a signature. Absent: nobody may. */
  unsigned?(accounts: Accounts, input: unknown): Principal
  /** What it changes; two at a time do not. */
  changes?(input: unknown): string
  run(call: Call, input: unknown): unknown
}

type OperationOf<Input> = {
  family: RateFamily
  input: z.ZodType<Input>
  shown?(input: Input): Readonly<Record<string, unknown>>
  accountOf?(input: Input): string | undefined
  unsigned?(accounts: Accounts, input: Input): Principal
  changes?(input: Input): string
  run(call: Call, input: Input): unknown
}

/** Ties the types of an operation together, and forgets them. */
export function operation<Input>(name: string, definition: OperationOf<Input>): Operation {
  const { family, input, shown, accountOf, unsigned, changes, run } = definition
  return {
    name,
    family,
    input,
    shown: (value) => (shown ? shown(value as Input) : (value as Record<string, unknown>)),
    ...(accountOf && { accountOf: (value) => accountOf(value as Input) }),
    ...(unsigned && { unsigned: (accounts, value) => unsigned(accounts, value as Input) }),
    ...(changes && { changes: (value) => changes(value as Input) }),
    run: (call, value) => run(call, value as Input),
  }
}
