export declare const CHROMIUM: readonly string[]

export declare function findProgram(names: readonly string[]): string | undefined
