import type { Clock } from '../../lib/clock.ts'
import type { Logger } from '../../lib/log.ts'
import { sleep } from '../../lib/sleep.ts'
import type { BoxFolder } from '../layout/store.ts'
import { failureOfPull } from '../registry/failure.ts'
import type { ProbeResult, RegistryLogin } from '../registry/outcome.ts'
import { type BakeContext, BakeFailureError, type OrderedService } from './probe.ts'
import type { CopyOutcome } from './skopeo.ts'

const EVERY_MS = 5000
const STEP = 1024 * 1024

export type PullProgressOptions = {
  service: string
  image: string
  folder: Pick<BoxFolder, 'size'>
  total: number | undefined
}

/** Says in the log how far a pull has come, as long as it comes on. @returns the call that ends it */
export function reportPullProgress(
  parts: { clock: Clock; log: Logger },
  followed: PullProgressOptions,
): () => Promise<number> {
  const { folder, service, image, total } = followed
  const begin = folder.size()
  let last = 0
  let stop = () => {}
  let over = false
  const grown = async () => Math.max(0, (await folder.size()) - (await begin))
  const look = async () => {
    const bytes = await grown()
    if (over) return
    if (bytes >= last + STEP) {
      last = bytes
      parts.log.info(
        `${service}: ${formatBytes(bytes)}${total === undefined ? '' : ` of ${formatBytes(total)}`}`,
        {
          service,
          image,
          bytes,
          ...(total === undefined ? {} : { totalBytes: total }),
        },
      )
    }
    stop = parts.clock.after(EVERY_MS, look)
  }
  stop = parts.clock.after(EVERY_MS, look)
  return async () => {
    over = true
    stop()
    return await grown()
  }
}

/** As people write it: `12.3 MB`. */
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

export type Pull = {
  service: OrderedService
  registry: string
  /** What is pulled: by the digest that the registry told, or as the template has it where it told none. */
  image: string
  login: RegistryLogin | undefined
  /** What the registry said before. */
  probed: ProbeResult
}

/** What breaks off in the midst of a pull is begun again, with what is there already. */
const ATTEMPTS = 3
const AGAIN_MS = 2000

/** Pulls the image of one service with the tool, and looks at every blob of it. @throws BakeFailureError, StoreError */
export async function pullImage(context: BakeContext, folder: BoxFolder, pull: Pull): Promise<void> {
  const { clock, log, signal } = context
  const service = pull.service.name
  for (let attempt = 1; ; attempt += 1) {
    const outcome = await copy(context, folder, pull)
    if (outcome.ok) break
    const failure = failureOf(context, pull, outcome)
    const passing = pull.probed.kind === 'found' && failure.failure.code === 'unreachable'
    if (!passing || attempt >= ATTEMPTS) throw failure
    log.warn(`${service}: the pull broke off, and is begun again`, { service, attempt })
    await sleep(clock, AGAIN_MS * attempt, signal)
    signal.throwIfAborted()
  }
  await folder.verify(service)
  log.info(`${service}: every blob is what its digest says`, { service })
}

async function copy(context: BakeContext, folder: BoxFolder, pull: Pull): Promise<CopyOutcome> {
  const { copier, log, order, redactor, signal, clock } = context
  const { image, login, registry } = pull
  const service = pull.service.name
  const begin = clock.monotonic()
  log.info(`${service}: pulling ${image}`, { service, image, login: login !== undefined })
  const ended = reportPullProgress({ clock, log }, { service, image, folder, total: totalOf(pull.probed) })
  try {
    const outcome = await copier.copy(
      {
        image,
        registry,
        ...(login && { login }),
        ...(order.platform !== undefined && { platform: order.platform }),
        folder: await folder.folderOf(service),
        blobs: folder.blobs,
        temporary: folder.temporary,
      },
      {
        signal,
        line(text, stream) {
          const words = redactor.redact(text)
          for (const piece of piecesOf(words))
            log[stream === 'stderr' ? 'warn' : 'info'](`${service}: ${piece}`, {
              service,
              tool: 'skopeo',
              stream,
            })
          return words
        },
      },
    )
    const seconds = ((clock.monotonic() - begin) / 1000).toFixed(1)
    const bytes = await ended()
    const how = outcome.ok ? `has ${formatBytes(bytes)} more` : `was not pulled (${outcome.exit})`
    log[outcome.ok ? 'info' : 'error'](`${service}: ${how} after ${seconds} s`, { service, bytes })
    return outcome
  } finally {
    await ended()
  }
}

/** The log cuts off what is longer than its lines. */
function piecesOf(words: string): string[] {
  return words.match(/[\s\S]{1,2000}/gu) ?? ['']
}

function failureOf(
  { redactor }: BakeContext,
  { service, login, probed, image }: Pull,
  { exit, stderr }: CopyOutcome & { ok: false },
): BakeFailureError {
  const { code, step } = failureOfPull({ probed, withLogin: login !== undefined, stderr, image })
  const message = redactor.redactForStatus(stderr) || `the tool ended with ${exit} and said nothing`
  return new BakeFailureError({ service: service.name, step, code, message })
}

/** Bytes of all blobs, where the manifest is of one image. */
function totalOf(probed: ProbeResult): number | undefined {
  if (probed.kind !== 'found') return undefined
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
