import type { BakeOrder } from '../../apis/bake-order.ts'
import type { ParameterReader } from '../../credentials/parameter-reader.ts'
import type { RegistryTokens } from '../../credentials/registry-tokens.ts'
import type { Clock } from '../../lib/ports-clock.ts'
import type { Logger } from '../../lib/ports-log.ts'
import type { BoxStore } from '../layout/box-store.ts'
import type { RegistryProbe } from '../registry/outcome.ts'
import type { ImageCopier } from './image-copier.ts'
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
