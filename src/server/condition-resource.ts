import { z } from 'zod'
import { time } from './lists.ts'

/** Conditions over REST, which leave out what only controllers need. */

/** @param examples names of condition types, as a list in words */
export function conditionSchema(examples: string) {
  return z.object({
    type: z.string().meta({ description: `type is the condition type, such as ${examples}.` }),
    status: z.enum(['True', 'False', 'Unknown']),
    reason: z.string().meta({ description: 'reason is the machine-readable cause, in one word.' }),
    message: z.string().meta({ description: 'message explains the cause and what to do.' }),
    lastTransitionTime: time('lastTransitionTime is the time at which the status last changed.'),
  })
}

type Condition = z.infer<ReturnType<typeof conditionSchema>>

/** @param conditions of an object, absent before its controller has seen it */
export function describeConditions(conditions: readonly Condition[] = []): Condition[] {
  return conditions.map(({ type, status, reason, message, lastTransitionTime }) => ({
    type,
    status,
    reason,
    message,
    lastTransitionTime,
  }))
}
