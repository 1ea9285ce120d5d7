/** A hundred thousand attempts that fail because of the receiver's certificate: what each leaves behind in the sender. */

import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { createClock } from '../../../src/lib/time.ts'
import type { WebhookSender } from '../../../src/webhooks/sender/send-failures.ts'
import { createWebhookSender } from '../../../src/webhooks/sender/sender.ts'
import { spawnProcess } from '../../bench/processes/remote-calls.ts'
import { report } from '../../bench/progress.ts'
import { type Figures, rounded } from '../figures.ts'
import type { CertificateCalls } from './certificates-process.ts'
import { slopeOf } from './memory.ts'

const RECEIVERS = fileURLToPath(new URL('./certificates-process.ts', import.meta.url))

const ATTEMPTS = 100_000
const AT_A_TIME = 32
const BETWEEN_SAMPLES = 4000
/** Caches fill and code is compiled during this many attempts. */
const WARM = 20_000
const DEADLINE_MS = 20_000
/** Sockets end and free their memory in this time. */
const SETTLED_MS = 100
const COLLECTIONS = 3

/** Bytes after this many attempts. */
type Sample = { attempts: number; heap: number; external: number; resident: number }

export async function badCertificates(): Promise<Figures> {
  const receivers = spawnProcess<CertificateCalls>(RECEIVERS)
  try {
    const { urls, ca } = await receivers.call('listen', null)
    const sender = createWebhookSender({
      networks: { allowed: ['127.0.0.0/8', '::1/128'] },
      clock: createClock(),
      ca,
    })
    const found = await attemptAll(sender, Object.values(urls))
    await sender.close()
    return { 'kinds of certificates': Object.keys(urls).length, attempts: ATTEMPTS, ...found }
  } finally {
    await receivers.stop()
  }
}

async function attemptAll(sender: WebhookSender, urls: readonly string[]): Promise<Figures> {
  const samples: Sample[] = []
  let failed = 0
  for (let done = 0; done < ATTEMPTS; done += BETWEEN_SAMPLES) {
    failed += await attemptMany(sender, urls, BETWEEN_SAMPLES)
    const sample = await sampleAfter(done + BETWEEN_SAMPLES)
    samples.push(sample)
    report(`${sample.attempts} attempts: heap ${Math.round(sample.heap / 2 ** 20)} MB`)
  }
  const warm = samples.filter(({ attempts }) => attempts >= WARM)
  const slope = (of: (sample: Sample) => number) =>
    rounded(slopeOf(warm.map((sample) => ({ x: sample.attempts, y: of(sample) }))))
  return {
    'of them failed by the certificate': failed,
    'heap that an attempt leaves, bytes': slope(({ heap }) => heap),
    'external that an attempt leaves, bytes': slope(({ external }) => external),
    'resident that an attempt leaves, bytes': slope(({ resident }) => resident),
  }
}

/** @returns how many failed as expected */
async function attemptMany(sender: WebhookSender, urls: readonly string[], count: number): Promise<number> {
  let next = 0
  let failed = 0
  const goOn = async () => {
    while (next < count) {
      const url = urls[next % urls.length] ?? ''
      next += 1
      const outcome = await sender.send({
        url,
        headers: {},
        body: Buffer.from('{}'),
        deadlineMs: DEADLINE_MS,
      })
      if (outcome.kind === 'failure' && outcome.class === 'tls') failed += 1
    }
  }
  await Promise.all(Array.from({ length: AT_A_TIME }, goOn))
  return failed
}

async function sampleAfter(attempts: number): Promise<Sample> {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  for (let n = 0; n < COLLECTIONS; n += 1) {
    await sleep(SETTLED_MS)
    collect()
  }
  const { heapUsed, external, rss } = process.memoryUsage()
  return { attempts, heap: heapUsed, external, resident: rss }
}
