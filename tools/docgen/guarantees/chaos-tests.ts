/** Tests that try several promises together. */

export const CHAOS =
  '`test/chaos/chaos`: loses nothing, repeats nothing without a reason, and keeps the order, however often it is killed'
export const FLEET =
  '`test/chaos/fleet/fleet-chaos`: whatever is done to its processes, their clocks, their ways and their store, a fleet holds every promise'
