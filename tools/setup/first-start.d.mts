export type Missing = {
  packages: boolean
  controlPlane: { cache: string; hasGo: boolean } | undefined
  debianPackages: readonly string[]
}

export declare function isComplete(missing: Missing): boolean

export declare function describe(missing: Missing): string[]

export declare function reasonNotToAsk(situation: {
  yes: boolean
  ci: string | undefined
  isTerminal: boolean
}): string | undefined

export declare function answerOf(line: string | undefined): boolean | undefined

export declare function afterNo(missing: Missing): string[]
