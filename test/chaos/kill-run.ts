import { startControlPlane } from '../../playground/control-plane/control-plane.ts'
import { freePort } from '../../playground/free-port.ts'
import { ChaosRun } from './chaos-run.ts'
import type { Findings } from './findings.ts'

/** Kills one controller repeatedly, on a separate control plane; about three seconds for each kill. */
export async function playKills(options: {
  seed: number
  kills: number
  say: (line: string) => void
}): Promise<Findings> {
  const controlPlane = await startControlPlane()
  try {
    const plan = { outages: 0.12, compactions: 0.25, eventsPerSecond: 40 }
    return await new ChaosRun(controlPlane, { ...options, ...plan, opsPort: await freePort() }).play()
  } finally {
    await controlPlane.stop()
  }
}
