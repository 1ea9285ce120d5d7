/**
 * Counts the calls of a piece of work to several parts of the world; one of the calls fails, or is the last one of the process.
 */
export type StepFault = 'fails before' | 'fails after' | 'dies before' | 'dies after'

export const STEP_FAULTS: readonly StepFault[] = ['fails before', 'fails after', 'dies before', 'dies after']

export class Steps {
  /** Calls in order. */
  readonly calls: string[] = []
  /** Resolves when the process has ended. */
  readonly died: Promise<'died'>
  #planned: { at: number; fault: StepFault } | undefined
  #die: () => void = () => undefined
  #dead = false

  constructor() {
    this.died = new Promise((resolve) => {
      this.#die = () => resolve('died')
    })
  }

  /** @param at counts from 1, from now on */
  failAt(at: number, fault: StepFault): void {
    this.#planned = { at: this.calls.length + at, fault }
  }

  /** Wraps a part of the world, so that its calls are counted. @param lost creates the error of a call with a lost answer */
  around<T extends object>(part: T, lost: () => Error): T {
    return new Proxy(part, {
      get: (target, name) => {
        const member = Reflect.get(target, name) as unknown
        if (typeof member !== 'function') return member
        return (...given: unknown[]) =>
          this.#step(String(name), lost, () => Reflect.apply(member, target, given) as Promise<unknown>)
      },
    })
  }

  /** Removes pending faults. */
  clear(): void {
    this.#planned = undefined
  }

  async #step(name: string, lost: () => Error, run: () => Promise<unknown>): Promise<unknown> {
    if (this.#dead) return await new Promise(() => undefined)
    this.calls.push(name)
    if (this.#planned?.at !== this.calls.length) return await run()
    const { fault } = this.#planned
    if (fault.endsWith('after')) await run()
    if (fault.startsWith('fails')) throw lost()
    this.#dead = true
    this.#die()
    return await new Promise(() => undefined)
  }
}
