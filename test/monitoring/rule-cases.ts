/** Cases of all alerts. */
import { API_SERVER_CASES } from './cases/api-server-cases.ts'
import { LATE_CASES } from './cases/late-cases.ts'
import type { RuleCase } from './cases/rule-case.ts'
import { SPACE_CASES } from './cases/space-cases.ts'

export const RULE_CASES: Readonly<Record<string, RuleCase>> = {
  ...LATE_CASES,
  ...API_SERVER_CASES,
  ...SPACE_CASES,
}
