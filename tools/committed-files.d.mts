export declare function takeCommitted(root: string, paths: readonly string[], into: string): string[]
