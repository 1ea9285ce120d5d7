export declare class LockTimeout extends Error {}

export declare function withProcessLock<T>(
  path: string,
  work: () => T | Promise<T>,
  options: { timeoutMs: number; onWait?: (holderPid: number) => void },
): Promise<T>
