/** Loaded before a process (NODE_OPTIONS=--import): on SIGUSR2 its event loop stands still for STALL_MS, as if something computed for so long. */
process.on('SIGUSR2', () => {
  const until = performance.now() + Number(process.env.STALL_MS)
  while (performance.now() < until);
})
