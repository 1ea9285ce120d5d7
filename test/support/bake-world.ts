/**
 * A template, its Jobs and their dependencies, as the bake plan sees them. It executes the steps of the plan, records violations,
 * and can be stopped between any two steps.
 */

import { readRequest } from '../../src/apis/annotations.ts'
import type { BakeFailureCode, BakeStatus } from '../../src/apis/bake.ts'
import { type BakeOutcome, type BakeProgress, bakeFailure } from '../../src/boxes/controller/outcome.ts'
import { type BakeAction, type BakeFacts, type JobFacts, planBake } from '../../src/boxes/controller/plan.ts'
import type { BakeProblem } from '../../src/boxes/controller/service-credentials.ts'

export const START = Date.UTC(2026, 0, 31, 12)
export const PROBLEM: BakeProblem = {
  code: 'credential_unknown',
  message: 'There is no rc_ghcr.',
  waits: true,
}
export const GOOD: BakeOutcome = { services: [] }

export function failed(code: BakeFailureCode): BakeOutcome {
  return { services: [], failure: bakeFailure({ step: 'pull', code, message: 'the words' }) }
}

const PASSING: readonly string[] = [
  'evicted',
  'quota',
  'bake_image_missing',
  'no_pod',
  'unschedulable',
  'not_started',
  'service_account_missing',
  'secret_unreadable',
  'unreachable',
  'dns_failed',
  'rate_limited',
]

/** The inputs of a bake. */
type Basis = { generation: number; request: string | undefined; credentials: number }

const MOST_STEPS = 12

export class BakeWorld {
  now = START
  generation = 1
  request: string | undefined
  credentials = 1
  problem: BakeProblem | undefined
  bake: BakeStatus | undefined
  jobs: JobFacts[] = []
  leavingPods: string[] = []
  readonly steps: string[] = []
  /** Violations of the rules. */
  readonly wrongs: string[] = []
  /** Created Jobs and their inputs, by name. */
  readonly made = new Map<string, Basis>()
  #begun = 0

  facts(): BakeFacts {
    return {
      now: this.now,
      generation: this.generation,
      request: readRequest(this.request, this.bake?.observedRebake, START),
      credentialState: `c-${this.credentials}`,
      problem: this.problem,
      bake: this.bake,
      jobs: this.jobs,
      leavingPods: this.leavingPods,
    }
  }

  /** Runs one pass, up to its last step or to its `stopAfter`th. */
  run(stopAfter = Number.POSITIVE_INFINITY): BakeAction {
    for (let count = 1; ; count += 1) {
      const step = planBake(this.facts())
      this.steps.push(step.step)
      if (step.step === 'nothing' || step.step === 'wait') return step
      if (count > MOST_STEPS) {
        this.wrongs.push(`no end: ${this.steps.slice(-6).join(', ')}`)
        return step
      }
      this.#take(step)
      if (count >= stopAfter) return step
    }
  }

  get job(): JobFacts | undefined {
    return this.jobs.find(({ name }) => name === this.bake?.job)
  }

  /** Advances the Job of this bake in Kubernetes. */
  progress(progress: BakeProgress): void {
    this.jobs = this.jobs.map((job) => (job === this.job && isAlive(job) ? { ...job, progress } : job))
  }

  end(outcome: BakeOutcome): void {
    this.progress({ state: 'ended', outcome })
  }

  /** Adds a Job that this bake has not created. */
  addJob(job: Partial<JobFacts> & { name: string }): void {
    this.jobs = [...this.jobs, { isOwn: false, isLeaving: false, progress: { state: 'running' }, ...job }]
  }

  /** Runs until there is nothing to do; every bake ends with this outcome. */
  settle(outcome: BakeOutcome): void {
    this.leavingPods = []
    for (let rounds = 0; rounds < 30; rounds += 1) {
      const step = this.run()
      this.end(outcome)
      this.jobs = this.jobs.filter(({ isLeaving }) => !isLeaving)
      if (step.step === 'nothing' && step.until === undefined) return
      this.now = Math.max(this.now + 1000, step.step === 'nothing' ? (step.until ?? 0) : 0)
    }
    this.wrongs.push(`never at rest: ${this.steps.slice(-6).join(', ')}`)
  }

  #take(step: Exclude<BakeAction, { step: 'nothing' | 'wait' }>): void {
    switch (step.step) {
      case 'start':
        this.#start(step.attempts)
        return
      case 'refuse':
        this.#refuse(step.problem)
        return
      case 'create':
        this.#create(step.job)
        return
      case 'run':
        if (this.bake) this.bake = { ...this.bake, state: 'running' }
        return
      case 'finish':
        this.#finish(step)
        return
      case 'remove-job':
        this.jobs = this.jobs.filter(({ name }) => name !== step.job)
        return
      case 'ignore-request':
        if (this.bake) this.bake = { ...this.bake, observedRebake: step.value }
    }
  }

  #start(attempts: number): void {
    if (!this.#mayStart()) this.wrongs.push(`start without a reason: ${JSON.stringify(this.bake)}`)
    this.#begun += 1
    this.bake = {
      ...this.#answered(),
      state: 'pending',
      number: this.#begun,
      job: `job-${this.#begun}`,
      attempts,
      startedAt: new Date(this.now).toISOString(),
    }
    if (attempts > 3) this.wrongs.push(`attempt ${attempts}`)
  }

  /** States the rule independently of the plan. */
  #mayStart(): boolean {
    const { bake } = this
    if (!bake || bake.generation !== this.generation) return true
    if (this.request !== undefined && this.request !== bake.observedRebake) return true
    if (bake.state === 'pending') return bake.credentialState !== `c-${this.credentials}`
    if (bake.state !== 'failed') return false
    if (bake.credentialState !== `c-${this.credentials}` || bake.failure?.step === 'check') return true
    const passes = PASSING.includes(bake.failure?.code ?? '')
    return passes && bake.attempts < 3 && this.now >= Date.parse(bake.nextAttemptAt ?? '')
  }

  #answered(): Pick<BakeStatus, 'generation' | 'observedRebake' | 'credentialState'> {
    const observedRebake = this.request ?? this.bake?.observedRebake
    return {
      generation: this.generation,
      ...(observedRebake === undefined ? {} : { observedRebake }),
      credentialState: `c-${this.credentials}`,
    }
  }

  #refuse(problem: BakeProblem): void {
    const { code, message, service } = problem
    const failure = bakeFailure({ step: 'check', code, message, service })
    const number = this.bake?.number ?? 0
    this.bake = { ...this.#answered(), state: 'failed', number, attempts: 0, failure }
  }

  #create(name: string): void {
    if (this.problem) this.wrongs.push(`a Job with a problem: ${name}`)
    if (this.jobs.some(isAlive) || this.leavingPods.length > 0) this.wrongs.push(`two at once: ${name}`)
    if (this.made.has(name) && this.jobs.some((job) => job.name === name))
      this.wrongs.push(`made twice: ${name}`)
    this.made.set(name, {
      generation: this.generation,
      request: this.request,
      credentials: this.credentials,
    })
    this.jobs = [...this.jobs, { name, isOwn: true, isLeaving: false, progress: { state: 'waiting' } }]
  }

  #finish({ outcome, nextAttemptAt }: Extract<BakeAction, { step: 'finish' }>): void {
    if (!this.bake) return
    const { nextAttemptAt: _planned, failure: _last, ...rest } = this.bake
    this.bake = {
      ...rest,
      state: outcome.failure ? 'failed' : 'succeeded',
      ...(outcome.failure ? { failure: outcome.failure } : {}),
      ...(nextAttemptAt === undefined ? {} : { nextAttemptAt: new Date(nextAttemptAt).toISOString() }),
    }
  }
}

export function isAlive({ progress }: JobFacts): boolean {
  return progress.state !== 'ended'
}
