export type PlaygroundOptions = {
  /** Ends after ten deliveries and two bakes, with a summary. */
  once: boolean
  /** The documented waits instead of short ones. */
  realWaits: boolean
  controllers: number
  /** Whether it bakes the two example boxes, for which it may install packages. */
  bakes: boolean
  /** Folder for its logs and `playground.json`; only one playground at a time can use it. */
  state: string
}

export declare class UsageError extends Error {}

export declare const USAGE: string

export declare function parseOptions(
  args: readonly string[],
  standard: string,
): PlaygroundOptions & { yes: boolean; help: boolean }
