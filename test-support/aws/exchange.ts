/** Handles a request from its arrival to its answer. */

import { randomUUID } from 'node:crypto'
import type { Clock } from '../../src/lib/time.ts'
import type { Principal } from './account.ts'
import type { Accounts } from './accounts.ts'
import { authenticate } from './authenticate.ts'
import { AwsError, NotInTheDouble } from './aws-error.ts'
import type { Call, Operation } from './call.ts'
import type { RegistryTokens } from './ecr/registry-tokens.ts'
import { authorize } from './iam/authorize.ts'
import { principalContext } from './iam/principal-context.ts'
import { endpointOf } from './partitions.ts'
import { type Answer, nameError, type Protocol } from './protocol.ts'
import type { RateLimits } from './rates.ts'
import { readInput } from './read-input.ts'
import { type Script, scriptedError } from './script.ts'
import { type Service, serviceFor } from './services.ts'
import { type Claim, readClaim, type SignedRequest } from './sigv4.ts'
import { type Trail, type TrailEntry, trailSession } from './trail.ts'

export type ExchangeParts = {
  accounts: Accounts
  registryTokens: RegistryTokens
  clock: Clock
  limits: RateLimits
  script: Script
  trail: Trail
  /** Parameters with a write in progress. */
  changing: Set<string>
  /** Called for requests that need a feature that the emulator lacks. */
  onDefect(defect: NotInTheDouble): void
}

/** The region of unsigned requests at the emulator's own address. */
const UNSIGNED_REGION = 'us-east-1'

/** Closes the connection instead of answering. */
export const CUT = 'cut'

type Asked = {
  name: string
  service: Service
  request: SignedRequest
  requestId: string
  entry: TrailEntry | undefined
}

export async function exchange(parts: ExchangeParts, request: SignedRequest): Promise<Answer | typeof CUT> {
  const { name, service } = serviceFor(request.headers)
  const asked: Asked = { name, service, request, requestId: randomUUID(), entry: undefined }
  try {
    return await answered(parts, asked)
  } catch (error) {
    return refused(parts, asked, error)
  } finally {
    if (asked.entry) parts.trail.add(asked.entry)
  }
}

async function answered(parts: ExchangeParts, asked: Asked): Promise<Answer | typeof CUT> {
  const { request, service } = asked
  const { protocol } = service
  const claim = claimOf(request)
  asked.entry = entryOf(parts, asked, claim)
  const signer = isSigned(claim) ? await signerOf(parts, asked, claim) : undefined
  const { operation: wanted, input: raw } = protocol.decode(request.headers, request.body.toString('utf8'))
  asked.entry.operation = wanted
  const operation = service.operations.get(wanted)
  if (!operation) throw new NotInTheDouble(`${asked.name}:${wanted}`)
  if (!signer && !operation.unsigned) throw AwsError.of('missing-token', 'Missing Authentication Token')
  const input = readInput(operation.input, raw)
  asked.entry.parameters = operation.trailInput(input)
  const principal = signer ?? unsignedPrincipal(parts, operation, input)
  asked.entry.account = operation.accountOf?.(input) ?? principal.account.id
  const performed = { request, protocol, principal, claim, operation, entry: asked.entry }
  const changed = operation.changes && `${asked.entry.account} ${claim.region} ${operation.changes(input)}`
  if (changed === undefined) return await finish(parts, performed, input)
  if (parts.changing.has(changed))
    throw AwsError.coded(
      'TooManyUpdates',
      'There are concurrent updates for a resource that supports one update at a time.',
    )
  parts.changing.add(changed)
  try {
    return await finish(parts, performed, input)
  } finally {
    parts.changing.delete(changed)
  }
}

/** What is known of the caller before any check. */
type Sender = Claim | { region: string; signature?: never }

/** A caller without an identity signs nothing; then the region is that of the endpoint. */
function claimOf({ headers }: SignedRequest): Sender {
  if (headers.authorization !== undefined) return readClaim(headers)
  return { region: endpointOf(headers.host ?? '')?.region ?? UNSIGNED_REGION }
}

function isSigned(claim: Sender): claim is Claim {
  return claim.signature !== undefined
}

async function signerOf(parts: ExchangeParts, asked: Asked, claim: Claim): Promise<Principal> {
  const principal = await authenticate(claim, asked.request, {
    accounts: parts.accounts,
    service: asked.name,
    skewMinutes: asked.service.protocol.skewMinutes,
    now: parts.clock.now(),
  })
  if (asked.entry)
    Object.assign(asked.entry, {
      principal: principal.arn,
      account: principal.account.id,
      session: trailSession(principal),
    })
  return principal
}

function unsignedPrincipal({ accounts }: ExchangeParts, operation: Operation, input: unknown): Principal {
  const principal = operation.unsigned?.(accounts, input)
  if (!principal) throw AwsError.of('missing-token', 'Missing Authentication Token')
  return principal
}

/** Runs the operation with its scripted faults. */
async function finish(
  parts: ExchangeParts,
  performed: Performed,
  input: unknown,
): Promise<Answer | typeof CUT> {
  const { entry, operation, protocol, request } = performed
  const { latencyMs, end } = parts.script.take(entry)
  if (latencyMs > 0) await new Promise<void>((resolve) => parts.clock.after(latencyMs, resolve))
  if (end === 'cut-before') return cut(entry)
  const scripted = end && scriptedError(end, request)
  if (scripted) throw scripted
  const result = perform(parts, performed, input)
  if (typeof end === 'object' && 'garbage' in end) return end.garbage(request)
  return end === 'cut-after' ? cut(entry) : protocol.success(operation.name, result, entry.requestId)
}

type Performed = {
  request: SignedRequest
  protocol: Protocol
  principal: Principal
  claim: Sender
  operation: Operation
  entry: TrailEntry
}

function perform(
  parts: ExchangeParts,
  { principal, claim, operation, entry }: Performed,
  input: unknown,
): unknown {
  const { accounts, clock, limits, script } = parts
  if (!limits.take(principal.account.id, claim.region, operation.family))
    throw AwsError.of('throttled', 'Rate exceeded')
  const now = clock.now()
  const call: Call = {
    accounts,
    principal,
    region: claim.region,
    now,
    lagMs: script.lagOf(entry),
    pagesAreShort: script.shortens(entry),
    registryTokens: parts.registryTokens,
    context: principalContext(principal, claim.region, now),
    authorize: (access) => authorize(principal, access),
  }
  return operation.run(call, input)
}

/** AWS hides its internal errors, the emulator reports them. */
function refused({ onDefect }: ExchangeParts, { service, entry, requestId }: Asked, error: unknown): Answer {
  const { protocol } = service
  const named =
    error instanceof AwsError
      ? nameError(protocol, error)
      : {
          code: 'NotInTheDouble',
          status: 501,
          message: error instanceof Error ? error.message : String(error),
        }
  if (!(error instanceof AwsError))
    onDefect(error instanceof NotInTheDouble ? error : new NotInTheDouble(named.message, { cause: error }))
  if (entry) {
    const isEcho = error instanceof AwsError && error.isEcho
    entry.error = isEcho ? { ...named, message: '(what was sent)' } : named
  }
  return protocol.failure(named, requestId)
}

function cut(entry: TrailEntry): typeof CUT {
  entry.error = { code: 'ConnectionCut', message: '', status: 0 }
  return CUT
}

function entryOf({ clock }: ExchangeParts, { name, request, requestId }: Asked, claim: Sender): TrailEntry {
  return {
    at: clock.now(),
    requestId,
    service: name,
    operation: String(request.headers['x-amz-target'] ?? '').replace(/^.*\./, ''),
    region: claim.region,
    account: '',
    principal: '',
    session: undefined,
    parameters: {},
    host: request.headers.host ?? '',
    userAgent: request.headers['user-agent'] ?? '',
  }
}
