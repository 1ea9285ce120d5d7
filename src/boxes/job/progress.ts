import type { Clock } from '../../lib/ports-clock.ts'
import type { Logger } from '../../lib/ports-log.ts'
import type { BoxFolder } from '../layout/box-store.ts'

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
