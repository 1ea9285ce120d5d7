/** Publishing by REST with and without TLS, in turn. */
import { describeVersions } from '../machine.ts'
import { type Round, tlsCases } from '../measure/rest-turns.ts'
import { rotated, runRounds, startStopwatch } from '../measure/rounds.ts'
import { report } from '../progress.ts'
import type { RestTls } from '../rest-load-results.ts'
import { makeCertificate, type ServerCertificate, startServerBed } from '../rest-server.ts'
import { type RestLoadPlan, runTurns, STEADY, saturationCase, warmUp } from './rest-turn.ts'
import { onServerBed, type ServerBed } from './server-bed.ts'
import { PUBLISHERS } from './usual-load.ts'

const CASES = [saturationCase(PUBLISHERS), STEADY]
const WARM_UP_SECONDS = 3

/** Each server runs in its own turns only, so that it costs the other nothing; the controller runs throughout. */
export async function measureRestTls(plan: RestLoadPlan): Promise<RestTls> {
  const elapsed = startStopwatch()
  return await onServerBed(async (on) => {
    const certificate = await makeCertificate(on.bed)
    const modes = [
      { name: 'without TLS', certificate: undefined, rounds: [] as Round[] },
      { name: 'with TLS', certificate, rounds: [] as Round[] },
    ] as const
    const rounds = await runRounds(plan, elapsed, async (round) => {
      for (const mode of rotated(modes, round)) {
        report(`rest-tls: round ${round + 1} of ${plan.rounds}, ${mode.name}`)
        mode.rounds.push(await measureMode(on, mode.certificate, plan.seconds))
      }
    })
    const [off, tls] = modes
    return {
      versions: await describeVersions(on.bed.controlPlane),
      rounds,
      seconds: plan.seconds,
      cases: tlsCases(off.rounds, tls.rounds),
    }
  })
}

async function measureMode(
  on: ServerBed,
  certificate: ServerCertificate | undefined,
  seconds: number,
): Promise<Round> {
  const server = await startServerBed(on.bed, { settings: 'default', certificate })
  try {
    await warmUp(on, [server], { of: saturationCase(PUBLISHERS), seconds: WARM_UP_SECONDS })
    return await runTurns(on, [server], { cases: CASES, seconds })
  } finally {
    await server.stop()
  }
}
