import { findChartTools } from './chart-tools.ts'

/** Runs once before the tests of charts, so that minutes of building Helm are seen and no hook waits for them. */
export async function setup(): Promise<void> {
  await findChartTools((line) => void process.stderr.write(`${line}\n`))
}
