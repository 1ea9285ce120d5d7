/** @returns the seed of the run, otherwise the default of the test */
export function seedOfRun(own: number): number {
  const { HOSTILE_SEED: asked } = process.env
  return asked ? Number(asked) : own
}
