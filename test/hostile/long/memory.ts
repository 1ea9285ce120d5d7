/** Whether what a process holds grows. */
import { readdirSync } from 'node:fs'
import type { Controller } from '../../bench/controller.ts'
import { residentBytes } from '../../bench/measure/process-usage.ts'

/** Bytes and open files, `at` so many seconds from the start. */
export type MemorySample = { at: number; heap: number; resident: number; files: number }

export async function sampleMemory(controller: Controller, at: number): Promise<MemorySample> {
  return {
    at,
    heap: await controller.call('heap', null),
    resident: residentBytes(controller.pid),
    files: readdirSync(`/proc/${controller.pid}/fd`).length,
  }
}

/** The slope of the line through the points, by least squares; 0 for fewer than two. */
export function slopeOf(points: readonly { x: number; y: number }[]): number {
  const mean = (values: readonly number[]) => values.reduce((sum, one) => sum + one, 0) / (values.length || 1)
  const x0 = mean(points.map(({ x }) => x))
  const y0 = mean(points.map(({ y }) => y))
  const spread = points.reduce((sum, { x }) => sum + (x - x0) ** 2, 0)
  return spread === 0 ? 0 : points.reduce((sum, { x, y }) => sum + (x - x0) * (y - y0), 0) / spread
}
