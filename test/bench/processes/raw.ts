/** The raw loop: what this API server can take of the same writes, with nothing of Davit between them. */

import { connectKubernetes } from '../../../src/kube/resources.ts'
import { createClock, createRandom } from '../../../src/lib/time.ts'
import { type RawSegmentsLoad, rawSegments } from '../loads/raw-segments.ts'
import { serveCalls } from './remote-calls.ts'

/** Times in microseconds of `instant.ts`; `endedAt` when the last write was acknowledged. */
export type RawResult = { deliveries: number; startedAt: number; endedAt: number }

export type RawCalls = {
  run: (load: RawSegmentsLoad) => Promise<RawResult>
}

const clock = createClock()
const random = createRandom()

serveCalls({
  run: async (load: RawSegmentsLoad) => {
    const api = await connectKubernetes({ kubeconfigPath: load.kubeconfigPath, clock, random })
    return await rawSegments(load, { api, clock, random }).finally(() => api.close())
  },
} satisfies RawCalls)
