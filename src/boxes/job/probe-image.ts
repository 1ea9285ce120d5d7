import { sleep } from '../../lib/sleep.ts'
import type { FoundManifest, ProbeResult, RegistryLogin } from '../registry/outcome.ts'
import type { BakeContext } from './bake-context.ts'

/** What did not work may work in a moment; a login that was refused is not tried again, since it may lock its user out. */
const WAITS_MS = [500, 2000]
const LONGEST_WAIT_MS = 30_000

const TRANSIENT: ReadonlySet<string> = new Set(['refused', 'reset', 'timeout'])

export type Probed = { result: ProbeResult; at: number }

export type ProbedImage = { registry: string; repository: string; reference: string }

/** Asks the registry for the manifest, again where it only was busy. */
export async function probeImage(
  context: BakeContext,
  image: ProbedImage,
  login: RegistryLogin | undefined,
): Promise<Probed> {
  const { probe, clock, signal } = context
  for (const wait of [...WAITS_MS, undefined]) {
    const result = await probe.manifest(image, login, { signal })
    const again = wait === undefined ? undefined : waitAfter(result, wait)
    if (again === undefined) return { result, at: clock.now() }
    await sleep(clock, again, signal)
    signal.throwIfAborted()
  }
  throw new Error('unreachable')
}

/** Undefined: another attempt would not help, or it would have to wait for too long. */
function waitAfter(result: ProbeResult, wait: number): number | undefined {
  if (result.kind === 'refused' && (result.status === 429 || result.status >= 500)) {
    const asked = Math.max(wait, (result.retryAfter ?? 0) * 1000)
    return asked <= LONGEST_WAIT_MS ? asked : undefined
  }
  if (result.kind !== 'unreachable') return undefined
  const { failure, code } = result
  const passing = failure === 'dns' ? code === 'EAI_AGAIN' : TRANSIENT.has(failure)
  return passing ? wait : undefined
}

export function isFound(result: ProbeResult): result is FoundManifest {
  return result.kind === 'found'
}
