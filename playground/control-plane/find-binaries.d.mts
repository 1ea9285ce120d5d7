export declare const KUBERNETES_VERSION: string
export declare const KUBERNETES_MINOR: string

export type ProgramName = 'etcd' | 'kube-apiserver' | 'kubectl'
export declare const SERVERS: readonly ProgramName[]
export declare const PROGRAMS: readonly ProgramName[]

/**
 * Programs by version and platform, `<root>/<version>-<os>-<arch>/<program>`. Every folder is complete from the moment it
 * appears.
 */
export type BinaryCache = { root: string; platform: string }

/** Paths of the programs. */
export type ControlPlaneBinaries = { etcd: string; kubeApiserver: string; kubectl: string }

export declare function binaryCache(env: NodeJS.ProcessEnv): BinaryCache

export declare function cachedBinaries(
  cache: BinaryCache,
  env: NodeJS.ProcessEnv,
): Promise<ControlPlaneBinaries | undefined>

export declare function binariesIn(
  folder: string,
  env: NodeJS.ProcessEnv,
): Promise<ControlPlaneBinaries | undefined>

export declare function findHostKubectl(env: NodeJS.ProcessEnv): Promise<string | undefined>

export declare function namesIn(folder: string): Promise<string[]>
