import type { z } from 'zod'
import type { Principal } from './account.ts'
import type { Accounts } from './accounts.ts'
import type { RegistryTokens } from './ecr/registry-tokens.ts'
import type { Context } from './iam/context.ts'
import type { AccessRequest } from './iam/evaluate.ts'
import type { RateFamily } from './rates.ts'

/** A request that is signed, readable and not throttled. */
export type Call = {
  accounts: Accounts
  principal: Principal
  region: string
  /** Milliseconds since 1970. */
  now: number
  /** How old the state is that reads of this operation see, in milliseconds. */
  lagMs: number
  /** Whether pages hold fewer items than they could. */
  pagesAreShort: boolean
  registryTokens: RegistryTokens
  /** Condition keys that are known for every request of this principal. */
  context: Context
  /** @throws AwsError unless the principal has the permission */
  authorize(request: AccessRequest): void
}

/** One operation of a service. Its run is synchronous, so that no other operation can interleave. */
export type Operation = {
  name: string
  family: RateFamily
  input: z.ZodType
  /** The input as it appears in the trail: never a secret. */
  trailInput(input: unknown): Readonly<Record<string, unknown>>
  /** The account that the call concerns, if it is not the caller's. */
  accountOf?(input: unknown): string | undefined
  /** The principal of an unsigned request. Absent: unsigned requests are rejected. */
  unsigned?(accounts: Accounts, input: unknown): Principal
  /** The resource that the call changes; two calls never change it at the same time. */
  changes?(input: unknown): string
  run(call: Call, input: unknown): unknown
}

type OperationOf<Input> = {
  family: RateFamily
  input: z.ZodType<Input>
  trailInput?(input: Input): Readonly<Record<string, unknown>>
  accountOf?(input: Input): string | undefined
  unsigned?(accounts: Accounts, input: Input): Principal
  changes?(input: Input): string
  run(call: Call, input: Input): unknown
}

/** Checks the types of an operation against each other, and then erases them. */
export function operation<Input>(name: string, definition: OperationOf<Input>): Operation {
  const { family, input, trailInput, accountOf, unsigned, changes, run } = definition
  return {
    name,
    family,
    input,
    trailInput: (value) => (trailInput ? trailInput(value as Input) : (value as Record<string, unknown>)),
    ...(accountOf && { accountOf: (value) => accountOf(value as Input) }),
    ...(unsigned && { unsigned: (accounts, value) => unsigned(accounts, value as Input) }),
    ...(changes && { changes: (value) => changes(value as Input) }),
    run: (call, value) => run(call, value as Input),
  }
}
