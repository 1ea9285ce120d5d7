/** @returns the seed that the run asks for, else the one of the test */
export function seedOfRun(own: number): number {
  const { HOSTILE_SEED: asked } = process.env
  return asked ? Number(asked) : own
}
