/** Runs one bake as a process, in the pod of its Job. It makes no calls to the API server. */
import { spawnSync } from 'node:child_process'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type BakeResult, MAX_TOOL_WORDS } from '../apis/bake.ts'
import { type BakeInterruption, bake, encodeBakeResult } from '../boxes/job/bake.ts'
import { machinePlatform } from '../boxes/job/platform.ts'
import type { BakeDependencies } from '../boxes/job/probe.ts'
import { createSkopeo, TOOL_HOME_PREFIX } from '../boxes/job/skopeo.ts'
import { createBoxStore, createScratchStore } from '../boxes/layout/store.ts'
import { startEgressProxy } from '../boxes/registry/egress.ts'
import { createRegistryProbe } from '../boxes/registry/probe.ts'
import { createParameterReader, createRegistryTokens } from '../credentials/aws/registry-logins.ts'
import { createLogger, type StructuredLogger } from '../lib/log.ts'
import { NOOP_METRICS } from '../lib/metrics.ts'
import { sanitizeText } from '../lib/text.ts'
import { createClock, createRandom } from '../lib/time.ts'
import { VERSION } from '../lib/version.ts'
import { type BakeConfig, type Environment, parseBakeConfig } from './config.ts'
import { logUncaughtErrors } from './process.ts'

/**
 * Disables core dumps of this process and its children, since they contain all secrets in memory.
 * @returns whether it worked; it needs `prlimit` of util-linux
 */
export function disableCoreDumps(): boolean {
  const { status } = spawnSync('prlimit', [`--pid=${process.pid}`, '--core=0:0'], { stdio: 'ignore' })
  return status === 0
}

/** @returns the exit code: 0 when the box is baked, 1 when it is not @throws ConfigError */
export async function runBake(environment: Environment): Promise<number> {
  const config = parseBakeConfig(environment)
  const clock = createClock()
  const log = createLogger({ level: config.logLevel, clock })
  logUncaughtErrors(process, { log, exit: (code) => process.exit(code) })
  if (!disableCoreDumps())
    log.warn(
      'core_dumps_enabled',
      'failed to disable core dumps; if this process crashes, a core dump may contain secrets',
    )
  // The timers of the clock do not keep the process alive.
  const awake = setInterval(() => undefined, 60_000)
  const ending = new AbortController()
  const end = (why: BakeInterruption) => ending.abort(why)
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => end('canceled'))
  const stopClock = clock.after(config.order.deadlineSeconds * 1000, () => end('timed_out'))
  try {
    return await run(config, log, ending.signal)
  } finally {
    stopClock()
    clearInterval(awake)
    await log.close()
  }
}

async function run(config: BakeConfig, log: StructuredLogger, signal: AbortSignal): Promise<number> {
  const { order, terminationLog } = config
  const { template, services } = order
  log.info('bake_pod_started', 'baking', {
    version: VERSION,
    template,
    bake: order.bake,
    services: services.map(({ name }) => name),
  })
  const result = await bakeOrFail(config, log, signal)
  await writeFile(terminationLog, encodeBakeResult(result))
  if (result.state === 'succeeded')
    log.info('bake_succeeded', 'bake succeeded', { template, services: result.services })
  return result.state === 'succeeded' ? 0 : 1
}

/** Errors of the pod itself become a result too: its log is gone before anyone reads it. */
async function bakeOrFail(
  config: BakeConfig,
  log: StructuredLogger,
  signal: AbortSignal,
): Promise<BakeResult> {
  try {
    await mkdir(config.memory, { recursive: true })
    await wipe(config.memory)
    const dependencies = await createDependencies(config, log, signal)
    const result = await bake(dependencies, config.order, signal)
    await cleanUp(config, dependencies, log)
    return result
  } catch (error) {
    log.error('bake_pod_setup_failed', 'failed to run the bake in this pod', { error })
    const message = sanitizeText(error instanceof Error ? error.message : String(error), MAX_TOOL_WORDS)
    return {
      version: 1,
      state: 'failed',
      services: [],
      failure: { step: 'store', code: 'tool_failed', message },
    }
  }
}

/** Errors are only logged: the result of the bake stands, and its memory ends with the pod. */
async function cleanUp(
  { memory }: BakeConfig,
  dependencies: { close(): void },
  log: StructuredLogger,
): Promise<void> {
  try {
    dependencies.close()
    await wipe(memory)
  } catch (error) {
    log.warn('bake_pod_cleanup_failed', 'failed to clean up after the bake', { error })
  }
}

async function createDependencies(
  { order, memory, scratch, extraCaFile, tool }: BakeConfig,
  log: StructuredLogger,
  signal: AbortSignal,
): Promise<BakeDependencies & { close(): void }> {
  const clock = createClock()
  const userAgent = `davit/${VERSION}`
  const extraCa = extraCaFile === undefined ? undefined : await readFile(extraCaFile, 'utf8')
  const cloud = { clock, random: createRandom(), metrics: NOOP_METRICS, userAgent }
  const parameters = createParameterReader(cloud)
  const tokens = createRegistryTokens(cloud)
  const { output, bake: id, template } = order
  return {
    store:
      output.kind === 'layout'
        ? createBoxStore({ output: output.path, template: template.name, bake: id, clock, signal, log })
        : createScratchStore(join(scratch, 'davit-bake'), { signal, log }),
    copier: createSkopeo({
      memory,
      extraCa,
      environment: tool,
      openProxy: (registry) => startEgressProxy(registry, order.realms),
    }),
    probe: createRegistryProbe({ userAgent, extraCa, realms: order.realms }),
    parameters,
    tokens,
    log,
    clock,
    machine: machinePlatform(process.arch),
    close() {
      parameters.close()
      tokens.close()
    },
  }
}

/** Removes what an earlier bake may have left; there is no login in it. */
async function wipe(memory: string): Promise<void> {
  for (const name of await readdir(memory))
    if (name.startsWith(TOOL_HOME_PREFIX)) await rm(join(memory, name), { recursive: true, force: true })
}
