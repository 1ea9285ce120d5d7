/** The test of all promises together. */
export const FLEET =
  '`test/chaos/fleet/fleet-chaos`: whatever is done to its processes, their clocks, their ways and their store, a fleet holds every promise'
