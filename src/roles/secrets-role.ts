import type { Reflector } from '../runtime/reflector.ts'
import { createSecretsParts, type SecretsParts, type SecretsPartsOptions } from './secrets-parts.ts'
import { createSecretsWatches } from './secrets-watches.ts'

/** The part of the controller that keeps secrets of organizations in their accounts. */
export type SecretsRole = {
  parts: SecretsParts
  /** To be started and synced before `start`. */
  watches: readonly Reflector<unknown>[]
  start(): void
  stop(): Promise<void>
}

const ORPHANS = 'all'

export function createSecretsRole(options: SecretsPartsOptions): SecretsRole {
  const parts = createSecretsParts(options)
  const watches = createSecretsWatches(parts, options.world)
  const loops = [parts.settingsLoop, parts.credentialLoop, parts.orphanLoop]
  return {
    parts,
    watches,
    start() {
      parts.orphanLoop.add(ORPHANS)
      for (const loop of loops) loop.start()
    },
    async stop() {
      await Promise.all(loops.map((loop) => loop.stop()))
      await Promise.all(watches.map((watch) => watch.stop()))
    },
  }
}
