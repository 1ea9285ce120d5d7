import type { BakeChaosFindings } from './bake-chaos.ts'

export function bakeReportOf({ killed, finished, points, baked, planted, wrong }: BakeChaosFindings): string {
  const rows = [
    `killed                    ${killed}`,
    ...Object.entries(points).map(([point, count]) => `  ${point.padEnd(24)}${count}`),
    `ended before              ${finished}`,
    `let go, and baked         ${baked}`,
    `planted secrets found     ${planted}`,
    `wrong                     ${wrong.length}`,
    ...wrong.slice(0, 20).map((line) => `  ${line}`),
  ]
  return rows.join('\n')
}
