import { buildHealthReaders } from './gitops/health-readers.ts'
import { buildKubeletPull } from './kubelet/kubelet-pull.ts'

/** Runs once before the tests that use the programs, so that the minutes of building are visible and no hook times out. */
export async function setup(): Promise<void> {
  const announce = (name: string) => void process.stderr.write(`building ${name} (once, a few minutes)\n`)
  await buildKubeletPull(() => announce('the part of a kubelet that asks for credentials'))
  await buildHealthReaders(() => announce('the health checks of Argo CD and Flux'))
}
