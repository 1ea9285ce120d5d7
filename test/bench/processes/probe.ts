/**
 * Loaded into a measured process of Davit before it starts: lets the bench look into its heap and at its CPU. Needs `--expose-gc`.
 */
import { writeFile } from 'node:fs/promises'
import { Session } from 'node:inspector/promises'
import { type Calls, serveCalls } from './remote-calls.ts'

export type ProbeCalls = {
  /** Bytes in use after a collection. */
  heap: (argument: null) => number
  /** Samples what the process does until `writeProfile`. @throws Error while another profile is being taken */
  startProfile: (argument: null) => Promise<void>
  /** Ends the samples, and writes them as V8 does (`.cpuprofile`). @throws Error before `startProfile` */
  writeProfile: (path: string) => Promise<void>
}

/** Finer than V8's own 1,000: handling a request takes a fraction of that. */
const SAMPLE_EVERY_US = 400

let session: Session | undefined

serveCalls({
  heap: () => {
    globalThis.gc?.()
    globalThis.gc?.()
    // Buffers that can grow are no part of `arrayBuffers`.
    const { heapUsed, external } = process.memoryUsage()
    return heapUsed + external
  },
  startProfile: async () => {
    if (session) throw new Error('a profile is being taken')
    session = new Session()
    session.connect()
    await session.post('Profiler.enable')
    await session.post('Profiler.setSamplingInterval', { interval: SAMPLE_EVERY_US })
    await session.post('Profiler.start')
  },
  writeProfile: async (path: string) => {
    if (!session) throw new Error('there is no profile')
    const { profile } = await session.post('Profiler.stop')
    session.disconnect()
    session = undefined
    await writeFile(path, JSON.stringify(profile))
  },
} satisfies ProbeCalls satisfies Calls)
// The controller ends when it has nothing to do any more; the bench is no reason to stay.
process.channel?.unref()
