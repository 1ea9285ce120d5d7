import { buildHealthReaders } from './gitops/health-readers.ts'
import { buildKubeletPull } from './kubelet/kubelet-pull.ts'

/** Runs once before the tests that call them, so that minutes of building are seen and no hook waits for them. */
export async function setup(): Promise<void> {
  const announce = (name: string) => void process.stderr.write(`building ${name} (once, a few minutes)\n`)
  await buildKubeletPull(() => announce('the part of a kubelet that asks for credentials'))
  await buildHealthReaders(() => announce('the health checks of Argo CD and Flux'))
}
