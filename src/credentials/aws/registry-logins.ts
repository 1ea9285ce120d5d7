import type { CloudMetrics } from '../../lib/metrics.ts'
import type { Clock, Random } from '../../lib/ports-clock.ts'
import { SecretText } from '../../lib/secret-text.ts'
import type { CallLimits } from '../cloud.ts'
import { CloudError, isCloudError } from '../cloud-error.ts'
import type { ParameterReader, PinnedParameter } from '../parameter-reader.ts'
import { unlessAborted } from './call-time.ts'
import { type AwsDependencies, runCall } from './calls.ts'
import { AwsClients, type Credentials } from './clients.ts'
import { withIdentity } from './identified.ts'

const OPERATION = 'ssm:GetParameter'
const LAG_MS = 10_000
const AGAIN_MS = 1000

export type ParameterReaderOptions = {
  clock: Clock
  random: Random
  metrics: CloudMetrics
  /** As `davit/0.1.0`. */
  userAgent: string
  /** Instead of the identity of this process. */
  credentials?: Credentials
  /** How long what is not there is waited for: a read may see the state of so long ago. Absent: ten seconds. */
  lagMs?: number
}

/** Reads secrets with the identity of this process: a box's role has the right to, Davit's own has not. */
export function createParameterReader(options: ParameterReaderOptions): ParameterReader & { close(): void } {
  const clients = new AwsClients(options.userAgent, options.credentials)
  return {
    read: (parameter, limits = {}) =>
      readOnceThere(options, clients, { parameter, limits, lagMs: options.lagMs ?? LAG_MS }),
    close: () => clients.close(),
  }
}

type Reading = { parameter: PinnedParameter; limits: CallLimits; lagMs: number }

async function readOnceThere(
  world: AwsDependencies,
  clients: AwsClients,
  reading: Reading,
): Promise<SecretText> {
  const begin = world.clock.monotonic()
  for (;;) {
    try {
      return await read(world, clients, reading)
    } catch (error) {
      const waited = world.clock.monotonic() - begin
      if (!isCloudError(error, 'ParameterNotFound', 'ParameterVersionNotFound') || waited >= reading.lagMs) {
        throw error
      }
    }
    await pause(world.clock, AGAIN_MS, reading.limits.signal)
  }
}

async function read(
  world: AwsDependencies,
  clients: AwsClients,
  { parameter, limits }: Reading,
): Promise<SecretText> {
  const { name, version, region } = parameter
  return await runCall(world, {
    operation: OPERATION,
    limits,
    connect: async () => await withIdentity(await clients.ownSsm(region)),
    send: async ({ module, client }, signal) => {
      const command = new module.GetParameterCommand({ Name: `${name}:${version}`, WithDecryption: true })
      const { Parameter } = await clients.timed(client, () => client.send(command, { abortSignal: signal }))
      if (Parameter?.Value === undefined || Parameter.Version !== version)
        throw new CloudError('retry', 'UnreadableAnswer', 'The answer has not the value of that version.')
      if (Parameter.Type !== 'SecureString')
        throw new CloudError(
          'spec',
          'UnsupportedParameterType',
          `It is a ${Parameter.Type}, no SecureString.`,
        )
      return new SecretText(Parameter.Value)
    },
  })
}

async function pause(clock: Clock, ms: number, signal: AbortSignal | undefined): Promise<void> {
  const over = new Promise<void>((resolve) => {
    clock.after(ms, resolve)
  })
  try {
    await (signal ? unlessAborted(signal, over) : over)
  } catch {
    throw new CloudError('retry', 'Canceled', 'It was given up by who asked for it.', {
      operation: OPERATION,
    })
  }
}
