import { findChartTools } from './chart-tools.ts'

/** Runs once before the chart tests, so that the minutes of building Helm are visible and no hook times out. */
export async function setup(): Promise<void> {
  await findChartTools((line) => void process.stderr.write(`${line}\n`))
}
