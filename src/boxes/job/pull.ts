/** Pulls one image with the tool: retries a pull that broke off, reports its progress, and verifies every blob and the platform. */

import type { Logger } from '../../lib/log.ts'
import { type Clock, sleep } from '../../lib/time.ts'
import type { BoxFolder } from '../layout/store.ts'
import { failureOfPull, type ProbeResult, type RegistryLogin } from '../registry/outcome.ts'
import { fitsBox, formatPlatform, type Platform, parsePlatform } from './platform.ts'
import { type BakeContext, BakeFailureError, type OrderedService } from './probe.ts'
import type { CopyOutcome } from './skopeo.ts'

const PROGRESS_INTERVAL_MS = 5000
const PROGRESS_STEP_BYTES = 1024 * 1024
/** A pull that broke off is continued with the blobs that are there. */
const ATTEMPTS = 3
const RETRY_MS = 2000

type PullProgressOptions = {
  service: string
  image: string
  folder: Pick<BoxFolder, 'size'>
  total: number | undefined
}

/** Logs the progress of a pull as long as there is some. @returns stops that, and returns the bytes in total */
export function reportPullProgress(
  { clock, log }: { clock: Clock; log: Logger },
  { folder, service, image, total }: PullProgressOptions,
): () => Promise<number> {
  const begin = folder.size()
  let last = 0
  let stop = () => {}
  let stopped = false
  const grown = async () => Math.max(0, (await folder.size()) - (await begin))
  const look = async () => {
    const bytes = await grown()
    if (stopped) return
    if (bytes >= last + PROGRESS_STEP_BYTES) {
      last = bytes
      const share = total === undefined ? '' : ` of ${formatBytes(total)}`
      const totalBytes = total === undefined ? {} : { totalBytes: total }
      log.info('image_pull_progress', `pulled ${formatBytes(bytes)}${share}`, {
        service,
        image,
        bytes,
        ...totalBytes,
      })
    }
    stop = clock.after(PROGRESS_INTERVAL_MS, look)
  }
  stop = clock.after(PROGRESS_INTERVAL_MS, look)
  return async () => {
    stopped = true
    stop()
    return await grown()
  }
}

export function formatBytes(bytes: number): string {
  const units = ['bytes', 'kB', 'MB', 'GB', 'TB']
  let value = bytes
  let unit = 0
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000
    unit += 1
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`
}

type Pull = {
  service: OrderedService
  registry: string
  /** With the digest from the registry, or as in the template if the probe failed. */
  image: string
  login: RegistryLogin | undefined
  probed: ProbeResult
}

/** @throws BakeFailureError, StoreError */
export async function pullImage(context: BakeContext, folder: BoxFolder, pull: Pull): Promise<void> {
  const { clock, log, signal } = context
  const service = pull.service.name
  for (let attempt = 1; ; attempt += 1) {
    const outcome = await copy(context, folder, pull)
    if (outcome.ok) break
    const failure = failureOf(context, pull, outcome)
    const isTransient = pull.probed.kind === 'found' && failure.failure.code === 'unreachable'
    if (!isTransient || attempt >= ATTEMPTS) throw failure
    log.warn('image_pull_interrupted', 'image pull was interrupted; retrying', { service, attempt })
    await sleep(clock, RETRY_MS * attempt, signal)
    signal.throwIfAborted()
  }
  const platform = await folder.verify(service)
  log.info('image_verified', 'verified the digests of all blobs', { service })
  checkPlatform(context, pull, platform)
}

/** @throws BakeFailureError */
function checkPlatform(
  { order, machine }: BakeContext,
  { service }: Pull,
  image: Platform | undefined,
): void {
  const box = order.platform === undefined ? machine : parsePlatform(order.platform)
  if (image === undefined || box === undefined || fitsBox(image, box)) return
  const wanted =
    order.platform === undefined
      ? `spec.platform is not set, and the node that runs the bake is ${formatPlatform(box)}`
      : `the platform of the box is ${order.platform}`
  const message = `${service.image} is an image for ${formatPlatform(image)}, but ${wanted}.`
  throw new BakeFailureError({ service: service.name, step: 'pull', code: 'platform_missing', message })
}

async function copy(context: BakeContext, folder: BoxFolder, pull: Pull): Promise<CopyOutcome> {
  const { copier, log, order, redactor, signal, clock } = context
  const { image, login, registry } = pull
  const service = pull.service.name
  const started = clock.monotonic()
  log.info('image_pull_started', 'pulling image', { service, image, login: login !== undefined })
  const stopProgress = reportPullProgress(
    { clock, log },
    { service, image, folder, total: totalOf(pull.probed) },
  )
  try {
    const outcome = await copier.copy(
      {
        image,
        registry,
        login,
        platform: order.platform,
        folder: await folder.folderOf(service),
        blobs: folder.blobs,
        temporary: folder.temporary,
      },
      {
        signal,
        line(text, stream) {
          const redacted = redactor.redact(text)
          const level = stream === 'stderr' ? 'warn' : 'info'
          // In pieces, since the log cuts off long lines.
          for (const piece of redacted.match(/[\s\S]{1,2000}/gu) ?? [''])
            log[level]('tool_output', piece, { service, tool: 'skopeo', stream })
          return redacted
        },
      },
    )
    const seconds = ((clock.monotonic() - started) / 1000).toFixed(1)
    const bytes = await stopProgress()
    if (outcome.ok)
      log.info('image_pulled', `pulled ${formatBytes(bytes)} in ${seconds} s`, { service, bytes })
    else
      log.error('image_pull_failed', `failed to pull image after ${seconds} s`, {
        service,
        bytes,
        exit: outcome.exit,
      })
    return outcome
  } finally {
    await stopProgress()
  }
}

function failureOf(
  { redactor }: BakeContext,
  { service, login, probed, image }: Pull,
  { exit, stderr }: CopyOutcome & { ok: false },
): BakeFailureError {
  const { code, step } = failureOfPull({ probed, withLogin: login !== undefined, stderr, image })
  const message =
    redactor.redactForStatus(stderr) || `The image tool exited with ${exit} and printed no error.`
  return new BakeFailureError({ service: service.name, step, code, message })
}

function totalOf(probed: ProbeResult): number | undefined {
  if (probed.kind !== 'found' || !probed.bytes) return undefined
  try {
    const { config, layers } = JSON.parse(Buffer.from(probed.bytes).toString('utf8')) as {
      config?: { size?: unknown }
      layers?: readonly { size?: unknown }[]
    }
    if (!config || !Array.isArray(layers)) return undefined
    return [config, ...layers].reduce((sum, { size }) => sum + (typeof size === 'number' ? size : 0), 0)
  } catch {
    return undefined
  }
}
