export type BakeProgram = { program: string; debianPackage: string }

export declare function missingBakePrograms(): BakeProgram[]

export declare function mayInstallPackages(isRoot?: boolean): boolean
