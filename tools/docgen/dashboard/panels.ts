/** The panels of the dashboard, row by row. The JSON for Grafana and the picture in the docs are made from these. */
import { OTHER_ROWS } from './other-rows.ts'
import type { Row } from './panel.ts'
import { QUESTION_ROWS } from './question-rows.ts'

export const ROWS: readonly Row[] = [...QUESTION_ROWS, ...OTHER_ROWS]
