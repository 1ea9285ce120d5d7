/** Preloaded in a process (NODE_OPTIONS=--import): SIGUSR2 blocks its event loop for STALL_MS, like a long computation. */
process.on('SIGUSR2', () => {
  const until = performance.now() + Number(process.env.STALL_MS)
  while (performance.now() < until);
})
