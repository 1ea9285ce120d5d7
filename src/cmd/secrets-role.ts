import type { Informer } from '../kube/informer.ts'
import {
  type CredentialComponents,
  type CredentialControllersOptions,
  createCredentialComponents,
} from './credential-controllers.ts'
import { createCredentialWatches } from './secrets-watches.ts'

/** The part of the controller that keeps secrets of organizations in their accounts. */
export type CredentialControllers = {
  parts: CredentialComponents
  /** To be started and synced before `start`. */
  watches: readonly Informer<unknown>[]
  start(): void
  stop(): Promise<void>
}

const FAILED_DELETIONS_KEY = 'all'

export function createCredentialControllers(options: CredentialControllersOptions): CredentialControllers {
  const parts = createCredentialComponents(options)
  const watches = createCredentialWatches(parts, options.world)
  const loops = [parts.settingsLoop, parts.credentialLoop, parts.orphanLoop]
  return {
    parts,
    watches,
    start() {
      parts.orphanLoop.add(FAILED_DELETIONS_KEY)
      for (const loop of loops) loop.start()
    },
    async stop() {
      await Promise.all(loops.map((loop) => loop.stop()))
      await Promise.all(watches.map((watch) => watch.stop()))
    },
  }
}
