import { setFlagsFromString } from 'node:v8'

/**
 * From now on all of the heap is collected when it has doubled. By itself V8 chooses how much it may grow, by how fast it does: by a
 * tenth where that is slow, so that a process with little to do goes through all of its memory every few seconds, and
 * threefold where it is fast.
 */
export function setHeapGrowth(): void {
  // Read anew after each collection, so that it can be set at any time.
  setFlagsFromString('--heap-growing-percent=100')
}
