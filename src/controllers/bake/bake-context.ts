import type { BakeOrder } from '../../api/bake-order.ts'
import type { BoxStore } from '../../ports/box-store.ts'
import type { Clock } from '../../ports/clock.ts'
import type { ImageCopier } from '../../ports/image-copier.ts'
import type { Log } from '../../ports/log.ts'
import type { ParameterReader } from '../../ports/parameter-reader.ts'
import type { RegistryProbe } from '../../ports/registry-probe.ts'
import type { RegistryTokens } from '../../ports/registry-tokens.ts'
import type { KnownSecrets } from './known-secrets.ts'

export type BakeParts = {
  store: BoxStore
  copier: ImageCopier
  probe: RegistryProbe
  parameters: ParameterReader
  tokens: RegistryTokens
  log: Log
  clock: Clock
}

export type OrderedService = BakeOrder['services'][number]

export type BakeContext = BakeParts & {
  order: BakeOrder
  secrets: KnownSecrets
  signal: AbortSignal
}
