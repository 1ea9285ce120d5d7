/**
 * The two loops of a reconcile pass over one object. A pass gathers facts, asks a pure plan for the next action and applies it, until
 * the plan has come to a conclusion; and it starts over with the newest version of the object if another writer changed it meanwhile.
 */
import type { ObjectMeta } from '../apis/meta.ts'
import { isApiError } from './client.ts'
import { ObjectGoneError } from './mutation-cache.ts'

/** What one step leads to: the state for the next step, or the conclusion of the pass. */
export type StepResult<State, Conclusion> = { state: State } | { conclusion: Conclusion }

/** Takes steps until one concludes. @throws Error after `maxSteps`: a plan that goes in circles must not occupy a worker */
export async function runPlan<State, Conclusion>(
  start: State,
  maxSteps: number,
  step: (state: State) => Promise<StepResult<State, Conclusion>>,
): Promise<Conclusion> {
  let state = start
  for (let taken = 0; taken < maxSteps; taken += 1) {
    const result = await step(state)
    if ('conclusion' in result) return result.conclusion
    state = result.state
  }
  throw new Error(`no end after ${maxSteps} steps`)
}

/** Conflicts in a row; each time the object was just read, so more of them are not a lagging watch. */
const MAX_CONFLICTS = 3

/**
 * Runs `pass` on the object, and again on what `read` returns after each conflict.
 * @param cached as the watch has it, possibly outdated
 * @returns undefined if the object is gone @throws what `pass` and `read` throw otherwise
 */
export async function retryOnConflict<T extends { metadata: ObjectMeta }, R>(
  cached: T | undefined,
  read: (object: T) => Promise<T>,
  pass: (object: T) => Promise<R>,
): Promise<R | undefined> {
  let object = cached
  for (let conflicts = 0; object; conflicts += 1) {
    const current: T = object
    try {
      return await pass(current)
    } catch (error) {
      if (error instanceof ObjectGoneError) return undefined
      if (!isApiError(error, 'Conflict') || conflicts === MAX_CONFLICTS) throw error
    }
    object = await unlessGone(() => read(current))
  }
  return undefined
}

/** The result of `read`; undefined if the object is gone. */
export async function unlessGone<T>(read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await read()
  } catch (error) {
    if (error instanceof ObjectGoneError) return undefined
    throw error
  }
}
