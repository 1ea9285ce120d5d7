import type { BoxCredentials } from '../../apis/box-credentials.ts'

/** What bakes left for the box, or for the boxes of a node. */
export type FoundMaps = {
  maps: readonly BoxCredentials[]
  /** What could not be read, one sentence each, with its path. */
  problems: readonly string[]
}

export interface BoxMaps {
  /** All maps that there are now. Never throws: what is wrong is in `problems`, one of which says so where there is none at all. */
  read(): Promise<FoundMaps>
}
