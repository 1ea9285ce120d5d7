/** Calls registries of the tests like a bake does before it pulls. */

import type { ProbeResult, RegistryLogin } from '../../../src/boxes/registry/outcome.ts'
import { createRegistryProbe, type RegistryProbeOptions } from '../../../src/boxes/registry/probe.ts'
import { SecretText } from '../../../src/lib/redact.ts'
import { startTestRegistry, type TestRegistry, type TestRegistryOptions } from './test-registry.ts'

const PASSWORD = 'a-secret:with a colon and ünicode'
const ACCOUNTS = {
  bot: { password: PASSWORD, pulls: ['acme/api'] },
  expired: { password: PASSWORD, pulls: ['*'], expired: true },
}
export const GOOD = { username: 'bot', password: new SecretText(PASSWORD) }
export const WRONG = { username: 'bot', password: new SecretText('wrong') }

export type ProbeBed = {
  registry: TestRegistry
  /** @param login null: without a login */
  ask(login?: RegistryLogin | null, given?: Given): Promise<ProbeResult>
  renew(): void
  stop(): Promise<void>
}

type Given = {
  repository?: string
  reference?: string
  signal?: AbortSignal
} & Partial<RegistryProbeOptions>

export async function startProbeBed(options: TestRegistryOptions): Promise<ProbeBed> {
  const registry = await startTestRegistry({ accounts: ACCOUNTS, ...options })
  const { challenge } = registry.front
  return {
    registry,
    ask(login = GOOD, { repository = 'acme/api', reference = '1.0', signal, ...more } = {}) {
      const probe = createRegistryProbe({
        userAgent: 'davit/test',
        extraCa: registry.ca,
        realms: [],
        ...more,
      })
      const image = { registry: registry.host, repository, reference }
      return probe.manifest(image, login ?? undefined, { ...(signal && { signal }) })
    },
    renew() {
      Object.assign(registry.front, { trouble: undefined, challenge })
      registry.front.requests.length = 0
      Object.assign(registry.tokens, { trouble: undefined, grantsNothing: false, tokenSeconds: 300 })
      registry.tokens.requests.length = 0
    },
    stop: () => registry.stop(),
  }
}
