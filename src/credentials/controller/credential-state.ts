import { createHash } from 'node:crypto'
import type { RegistryCredential } from '../../apis/registry-credential.ts'

/**
 * Stands for credentials as they are: their specs, and the versions of their secrets. A failed bake is repeated when it is another
 * (interface §3.3). What a bake itself writes into their status is no part of it.
 */
export function credentialState(
  names: readonly string[],
  credentials: ReadonlyMap<string, RegistryCredential>,
): string {
  const facts = [...new Set(names)].sort().map((name) => {
    const { metadata, status } = credentials.get(name) ?? {}
    return [name, metadata?.uid ?? '', metadata?.generation ?? 0, status?.parameter?.version ?? 0]
  })
  return createHash('sha256').update(JSON.stringify(facts)).digest('hex').slice(0, 32)
}
