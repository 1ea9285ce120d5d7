import type { WatchHealth } from './contact.ts'

/** What a reflector is to whoever does not look at its objects. */
export interface Watch {
  /** The first list was read to its end. */
  readonly synced: Promise<void>
  readonly health: WatchHealth
  /** Everything up to this version was handed on; 0 before the end of the first list. */
  readonly version: number
  /** What is known is as of a list that was read to its end, and of what has come since. */
  readonly isListed: boolean
  start(): unknown
  /** The stream that is open may be dead without knowing it. */
  reopen(): void
  /** What was handed on may not be all: everything is listed once more. */
  relist(): void
  /** Resolves when nothing will be handed on any more. */
  stop(): Promise<void>
}
