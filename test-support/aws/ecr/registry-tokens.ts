import { createHash, randomBytes } from 'node:crypto'
import type { Principal } from '../account.ts'

type Issued = { principal: Principal; region: string; expiresAt: number }

/** The answer of a registry to a password; the statuses are those of ECR. */
export type EcrVerdict =
  | { ok: true; account: string; principal: Principal }
  | { ok: false; status: 400 | 401 | 403; reason: 'expired' | 'unknown' | 'wrong-region' | 'wrong-username' }

const LIFETIME_MS = 12 * 60 * 60 * 1000
const MAX_TOKENS = 10_000

/** Issued registry passwords; the oldest are dropped first. Only their hashes are kept. */
export class RegistryTokens {
  readonly #issued = new Map<string, Issued>()

  issue(principal: Principal, region: string, now: number): { password: string; expiresAt: number } {
    const expiresAt = now + LIFETIME_MS
    // With the length and shape of ECR's tokens.
    const payload = randomBytes(1_100).toString('base64')
    const parts = { payload, datakey: randomBytes(180).toString('base64'), version: '2', type: 'DATA_KEY' }
    const password = Buffer.from(
      JSON.stringify({ ...parts, expiration: Math.floor(expiresAt / 1000) }),
    ).toString('base64')
    const [oldest] = this.#issued.keys()
    if (this.#issued.size >= MAX_TOKENS && oldest !== undefined) this.#issued.delete(oldest)
    this.#issued.set(hashOf(password), { principal, region, expiresAt })
    return { password, expiresAt }
  }

  /** The answer of the registry of a region to a login. */
  verify(login: { username: string; password: string; region: string; now: number }): EcrVerdict {
    const issued = this.#issued.get(hashOf(login.password))
    if (login.username !== 'AWS') return { ok: false, status: 401, reason: 'wrong-username' }
    if (!issued) return { ok: false, status: 401, reason: 'unknown' }
    if (issued.region !== login.region) return { ok: false, status: 400, reason: 'wrong-region' }
    if (issued.expiresAt <= login.now) return { ok: false, status: 403, reason: 'expired' }
    return { ok: true, account: issued.principal.account.id, principal: issued.principal }
  }
}

function hashOf(password: string): string {
  return createHash('sha256').update(password).digest('hex')
}
