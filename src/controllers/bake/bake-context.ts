import type { BakeOrder } from '../../api/bake-order.ts'
import type { BoxStore } from '../../ports/box-store.ts'
import type { Clock } from '../../ports/clock.ts'
import type { ImageCopier } from '../../ports/image-copier.ts'
import type { Logger } from '../../ports/log.ts'
import type { ParameterReader } from '../../ports/parameter-reader.ts'
import type { RegistryProbe } from '../../ports/registry-probe.ts'
import type { RegistryTokens } from '../../ports/registry-tokens.ts'
import type { SecretRedactor } from './known-secrets.ts'

export type BakeDependencies = {
  store: BoxStore
  copier: ImageCopier
  probe: RegistryProbe
  parameters: ParameterReader
  tokens: RegistryTokens
  log: Logger
  clock: Clock
}

export type OrderedService = BakeOrder['services'][number]

export type BakeContext = BakeDependencies & {
  order: BakeOrder
  redactor: SecretRedactor
  signal: AbortSignal
}
