import type { Request } from '../../apis/annotations.ts'
import type { BakedService, BakeStatus } from '../../apis/bake.ts'
import { type BoxTemplate, REBAKE_ANNOTATION } from '../../apis/box-template.ts'
import { jobs } from '../../apis/core-kinds.ts'
import { CREDENTIAL_PREFIX } from '../../apis/ids.ts'
import {
  type CredentialVerification,
  registryCredential,
  registryCredentials,
} from '../../apis/registry-credential.ts'
import { isNewer, verificationsOf } from '../../credentials/controller/conditions.ts'
import { type ApiError, isApiError, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import { ObjectGoneError } from '../../kube/mutation-cache.ts'
import { noRequeue, type ReconcileResult, type Reconciler, requeueAfter } from '../../kube/reconcile-loop.ts'
import { mergeConditions, statusPatch } from '../../kube/status.ts'
import { sanitizeText } from '../../lib/text.ts'
import { bakeName, buildBakeJob, buildBakeOrder, hasBakeLabels, type PreparedService } from './bake-job.ts'
import { currentCondition, templateFindings } from './conditions.ts'
import {
  type GatheredBake,
  gatherBake,
  isOwnedBy,
  listBakeRuns,
  type TemplateContext,
  templateReference,
} from './gather.ts'
import { exceedsTemplateQuota, isReportedOverQuota } from './limits.ts'
import { type BakeOutcome, bakeFailure, bakeJob as bakeJobSchema } from './outcome.ts'
import { type BakeAction, type BakeFacts, dueReason, finishAction, planBake } from './plan.ts'

/**
 * Tells credentials what a bake has seen of them. It writes a fact, `status.verified`; the condition follows from it in the loop of
 * credentials, so that no two loops write the same.
 */

const CONFLICTS = 5

export type VerificationContext = {
  resources: ResourceReader & ResourceWriter
  namespace: string
  /** Of the bake: a credential that was made later is another one. */
  startedAt: number
}

/** @param found by the ids of credentials @throws ApiError */
async function recordVerifications(
  of: VerificationContext,
  found: ReadonlyMap<string, CredentialVerification>,
): Promise<void> {
  for (const [id, verified] of found) {
    const ref = { namespace: of.namespace, name: id.slice(CREDENTIAL_PREFIX.length) }
    for (let conflicts = 0; ; conflicts += 1) {
      try {
        await record(of, ref, verified)
        break
      } catch (error) {
        // It is gone, or nothing can be written to it as it is: the bake has ended all the same.
        if (isApiError(error, 'NotFound', 'Invalid')) break
        if (!isApiError(error, 'Conflict') || conflicts === CONFLICTS) throw error
      }
    }
  }
}

async function record(
  { resources, startedAt }: VerificationContext,
  ref: { namespace: string; name: string },
  verified: CredentialVerification,
): Promise<void> {
  const { metadata, status = { observedGeneration: -1 } } = registryCredential.parse(
    await resources.get(registryCredentials, ref),
  )
  if (Date.parse(metadata.creationTimestamp ?? '') > startedAt) return
  if (!isNewer(verified, status.verified)) return
  const change = statusPatch({ verified: status.verified }, { verified })
  if (!change) return
  const patch = { metadata: { resourceVersion: metadata.resourceVersion }, status: change }
  await resources.patch(registryCredentials, ref, patch, { subresource: 'status' })
}

/** The steps of a bake, taken. */

/** What changes something. */
type ChangingAction = Exclude<BakeAction, { step: 'nothing' | 'wait' }>
type Finish = Extract<BakeAction, { step: 'finish' }>

/** @throws ObjectGoneError, ApiError */
async function applyBakeAction(
  of: TemplateReconciliation,
  gathered: GatheredBake,
  step: ChangingAction,
): Promise<void> {
  switch (step.step) {
    case 'start':
      return await start(of, gathered, step)
    case 'refuse':
      return await refuse(of, gathered, step)
    case 'create':
      return await create(of, gathered, step.job)
    case 'run':
      return await of.writeStatus(gathered, { ...currentBake(gathered), state: 'running' })
    case 'finish':
      return await finish(of, gathered, step)
    case 'remove-job':
      return await removeJob(of, step)
    case 'ignore-request':
      recordRequestRefused(of, step.message)
      return await of.writeStatus(gathered, { ...currentBake(gathered), observedRebake: step.value })
  }
}

/** Of a step that is taken for a bake that there is. */
function currentBake({ facts }: GatheredBake): BakeStatus {
  if (!facts.bake) throw new Error('a step without its bake')
  return facts.bake
}

/** The name of the Job is durable before the Job is: whoever comes next makes the same one, or finds it. */
async function start(
  of: TemplateReconciliation,
  gathered: GatheredBake,
  { attempts, reason }: Extract<BakeAction, { step: 'start' }>,
): Promise<void> {
  const { facts, services } = gathered
  const { name, namespace, uid } = of.template.metadata
  const { now, generation, request, credentialState, bake } = facts
  const number = (bake?.number ?? 0) + 1
  const rebake = rebakeOf(request, bake)
  const job = bakeName({ template: name, uid, generation, rebake, number })
  if (request.kind === 'invalid') recordRequestRefused(of, request.message)
  await of.writeStatus(gathered, {
    state: 'pending',
    number,
    job,
    attempts,
    generation,
    ...(rebake === undefined ? {} : { observedRebake: rebake }),
    credentialState,
    startedAt: new Date(now).toISOString(),
    services: services.map(bakedService),
    ...lastSucceededOf(bake),
  })
  of.context.log.info('A bake is begun', { namespace, template: name, job, reason, attempts })
}

/** What the bake answers of the annotation. */
function rebakeOf(request: Request, bake: BakeStatus | undefined): string | undefined {
  return request.kind === 'new' || request.kind === 'invalid' ? request.value : bake?.observedRebake
}

function bakedService({ name, image, credential, why = '' }: PreparedService): BakedService {
  if (credential === undefined) return { name, image }
  const { id, generation, parameter } = credential
  return {
    name,
    image,
    credential: {
      id,
      ...(parameter === undefined ? {} : { parameterVersion: parameter.version }),
      ...(generation === undefined ? {} : { generation }),
      why,
    },
  }
}

/** Which box is there while the next one is on its way, or has failed. */
function lastSucceededOf(bake: BakeStatus | undefined): Pick<BakeStatus, 'lastSucceeded'> {
  if (bake?.state !== 'succeeded') return bake?.lastSucceeded ? { lastSucceeded: bake.lastSucceeded } : {}
  const { job, completedAt, services } = bake
  return {
    lastSucceeded: {
      ...(job === undefined ? {} : { job }),
      ...(completedAt === undefined ? {} : { completedAt }),
      ...(services === undefined ? {} : { services }),
    },
  }
}

async function refuse(
  of: TemplateReconciliation,
  gathered: GatheredBake,
  { problem }: Extract<BakeAction, { step: 'refuse' }>,
): Promise<void> {
  const { now, generation, request, credentialState, bake } = gathered.facts
  const at = new Date(now).toISOString()
  const rebake = rebakeOf(request, bake)
  const { service, code, message } = problem
  const failure = bakeFailure({ step: 'check', code, message, ...(service === undefined ? {} : { service }) })
  await of.writeStatus(gathered, {
    state: 'failed',
    number: bake?.number ?? 0,
    attempts: 0,
    generation,
    ...(rebake === undefined ? {} : { observedRebake: rebake }),
    credentialState,
    startedAt: at,
    completedAt: at,
    failure,
    ...lastSucceededOf(bake),
  })
  reportBakeEnd(of, { services: [], failure }, 0)
}

async function create(of: TemplateReconciliation, gathered: GatheredBake, job: string): Promise<void> {
  const { context, template } = of
  const { settings, resources, events } = context
  if (settings.image === undefined) throw new Error('a Job without an image')
  const known = { ...settings, image: settings.image }
  const { services } = gathered
  const { startedAt } = currentBake(gathered)
  const order = buildBakeOrder(template, { name: job, services, startedAt }, known)
  const object = buildBakeJob({ template, order, settings: known, roleArn: gathered.roleArn })
  try {
    await resources.create(jobs, object)
    events.record(templateReference(template), {
      type: 'Normal',
      reason: 'BakeStarted',
      message: `Job ${job}.`,
    })
  } catch (error) {
    if (isApiError(error, 'AlreadyExists')) return await adoptExistingJob(of, gathered, job)
    const outcome = isApiError(error, 'Quota', 'Forbidden', 'Invalid', 'BadRequest') && refusal(error)
    if (!outcome) throw error
    await finish(of, gathered, finishAction(gathered.facts, currentBake(gathered), outcome))
  }
}

/** Made by a pass before this one that could not say so; by somebody else it is in the way. */
async function adoptExistingJob(
  of: TemplateReconciliation,
  gathered: GatheredBake,
  name: string,
): Promise<void> {
  const { namespace = '', uid } = of.template.metadata
  const job = bakeJobSchema.parse(await of.context.resources.get(jobs, { namespace, name }))
  const isOwn = isOwnedBy(job, uid)
  // Without them it is in no list, and would be made again and again.
  if (isOwn && hasBakeLabels(job.metadata.labels, of.template.metadata.name)) return
  const message = isOwn
    ? `Somebody has changed the labels of the Job ${name}, by which Davit finds it.`
    : `There is a Job ${name} in the namespace that Davit did not make.`
  const failure = bakeFailure({ step: 'start', code: 'pod_refused', message })
  await finish(of, gathered, { step: 'finish', outcome: { services: [], failure } })
}

function refusal(error: ApiError): BakeOutcome {
  const code = error.kind === 'Quota' ? 'quota' : 'pod_refused'
  const message = sanitizeText(error.message, 1000)
  return { services: [], failure: bakeFailure({ step: 'start', code, message }) }
}

/** What the credentials are told comes first: after a crash it is told again, which changes nothing. */
async function finish(
  of: TemplateReconciliation,
  gathered: GatheredBake,
  { outcome, nextAttemptAt }: Finish,
): Promise<void> {
  const { context, template } = of
  const bake = currentBake(gathered)
  const { services = [], failure: _last, nextAttemptAt: _planned, lastSucceeded, ...rest } = bake
  const { namespace = '', name } = template.metadata
  const { now } = gathered.facts
  const startedAt = Date.parse(bake.startedAt ?? '') || now
  const found = verificationsOf({ template: name, services }, outcome.services, now)
  await recordVerifications({ resources: context.resources, namespace, startedAt }, found)
  const { failure } = outcome
  await of.writeStatus(gathered, {
    ...rest,
    state: failure ? 'failed' : 'succeeded',
    completedAt: new Date(now).toISOString(),
    services: failure ? services : services.map((service) => withDigest(service, outcome)),
    ...(failure ? { failure, ...(lastSucceeded ? { lastSucceeded } : {}) } : {}),
    ...(nextAttemptAt === undefined ? {} : { nextAttemptAt: new Date(nextAttemptAt).toISOString() }),
  })
  reportBakeEnd(of, outcome, now - startedAt)
}

function withDigest(service: BakedService, { services }: BakeOutcome): BakedService {
  const digest = services.find(({ name }) => name === service.name)?.digest
  return digest === undefined ? service : { ...service, digest }
}

async function removeJob(
  { context, template }: TemplateReconciliation,
  { job, reason }: Extract<BakeAction, { step: 'remove-job' }>,
): Promise<void> {
  const { namespace = '', name } = template.metadata
  try {
    const { metadata } = bakeJobSchema.parse(await context.resources.get(jobs, { namespace, name: job }))
    const precondition = { uid: metadata.uid }
    await context.resources.delete(jobs, { namespace, name: job }, precondition, { dependents: 'Background' })
    context.log.info('Removed a Job', { namespace, template: name, job, reason })
  } catch (error) {
    // Gone, or made again meanwhile: the next look tells.
    if (!isApiError(error, 'NotFound', 'Conflict')) throw error
  }
}

function recordRequestRefused({ context, template }: TemplateReconciliation, message: string): void {
  context.events.record(templateReference(template), { type: 'Warning', reason: 'RequestRefused', message })
}

function reportBakeEnd(
  { context, template }: TemplateReconciliation,
  { failure }: BakeOutcome,
  tookMs: number,
): void {
  context.metrics.baked(failure?.code ?? 'succeeded', tookMs / 1000)
  const about = templateReference(template)
  if (!failure) {
    const message = 'Every service was pulled.'
    context.events.record(about, { type: 'Normal', reason: 'Baked', message })
    return
  }
  const where = failure.service === undefined ? '' : `service ${failure.service}, `
  const message = sanitizeText(
    `${failure.code} (${where}${failure.step}): ${failure.message} ${failure.fix}`,
    1000,
  )
  context.events.record(about, { type: 'Warning', reason: 'BakeFailed', message })
}

/** One pass over a template: gathers, asks for the next step and takes it, until there is none. */

/** A plan that goes round in circles must not hold a worker. */
const MAX_STEPS = 12

/** Steps after which there is nothing to ask. */
type ReconciliationOutcome = Extract<BakeAction, { step: 'nothing' | 'wait' }> & {
  /** Since when a problem is there that may go without a change of the template; milliseconds since 1970. */
  troubledSince?: number | undefined
}

class TemplateReconciliation {
  readonly context: TemplateContext
  template: BoxTemplate

  private constructor(context: TemplateContext, template: BoxTemplate) {
    this.context = context
    this.template = template
  }

  /** @throws ObjectGoneError, ApiError */
  static async run(context: TemplateContext, template: BoxTemplate): Promise<ReconciliationOutcome> {
    const pass = new TemplateReconciliation(context, template)
    return template.metadata.deletionTimestamp === undefined ? await pass.#run() : await pass.#cancel()
  }

  /** Its Jobs are its own, and go with it. They do not wait for what holds it still: a finalizer of somebody else. */
  async #cancel(): Promise<ReconciliationOutcome> {
    const { context, template } = this
    const { jobs } = await listBakeRuns(context, template)
    for (const { name, isOwn, isLeaving, progress } of jobs) {
      if (!isOwn || isLeaving || progress.state === 'ended') continue
      await removeJob(this, { step: 'remove-job', job: name, reason: 'its template is being deleted' })
    }
    context.slots.release(templateKey(template))
    return { step: 'nothing' }
  }

  async #run(): Promise<ReconciliationOutcome> {
    const { book, settings } = this.context
    const rebake = this.template.metadata.annotations?.[REBAKE_ANNOTATION]
    // However many there are, they cost no call any more.
    if (
      isReportedOverQuota(this.template, rebake) &&
      exceedsTemplateQuota(book, this.template, settings.maxTemplates)
    )
      return { step: 'nothing' }
    for (let taken = 0; taken < MAX_STEPS; taken += 1) {
      const gathered = await gatherBake(this.context, this.template)
      const { facts } = gathered
      const step = this.#turn(planBake(facts))
      if (step.step === 'nothing' || step.step === 'wait') {
        await this.writeStatus(gathered, facts.bake, step.step === 'wait' ? step.reason : undefined)
        const since = Date.parse(this.template.status?.bake?.completedAt ?? '') || facts.now
        return { ...step, troubledSince: facts.problem?.waits ? since : undefined }
      }
      await applyBakeAction(this, gathered, step)
    }
    throw new Error(`no end after ${MAX_STEPS} steps`)
  }

  /** A bake begins when it is its turn; who does not bake lets others have theirs. */
  #turn(step: BakeAction): BakeAction {
    const { slots, settings } = this.context
    const key = templateKey(this.template)
    if (step.step === 'start') {
      const full = slots.acquire(key)
      return full === undefined
        ? step
        : { step: 'wait', reason: SLOT_LIMIT_MESSAGES[full](settings.limits[full]) }
    }
    if (isBaking(this.template)) slots.occupy(key)
    else slots.release(key)
    return step
  }

  /** The status with this bake in it; the conditions follow from it. @param waitsFor what a bake that is due waits for */
  async writeStatus(
    { facts, names, credentials }: GatheredBake,
    bake: BakeStatus | undefined,
    waitsFor?: string,
  ): Promise<void> {
    const { context, template } = this
    const { now, generation, problem, credentialState } = facts
    const after: BakeFacts = { ...facts, bake, request: requestAfter(facts, bake) }
    const current = currentCondition({ bake, generation, credentialState, names, credentials })
    const isDue = dueReason(after) !== undefined
    const findings = templateFindings({ bake, problem, isDue, waitsFor, current })
    this.template = await context.writer.updateStatus(template, {
      ...(bake === undefined ? {} : { bake }),
      observedGeneration: generation,
      conditions: mergeConditions(template.status?.conditions, findings, { now, generation }),
    })
  }
}

const SLOT_LIMIT_MESSAGES = {
  organization: (limit: number) =>
    `the organization has ${limit} under way, as many as it may have (DAVIT_MAX_BAKES_PER_ORGANIZATION)`,
  all: (limit: number) => `${limit} are under way, as many as the operator allows (DAVIT_MAX_BAKES)`,
}

export function templateKey({ metadata: { namespace = '', name } }: BoxTemplate): string {
  return `${namespace}/${name}`
}

/** Whether a bake of it was begun and has not ended. */
export function isBaking({ status }: BoxTemplate): boolean {
  return status?.bake?.state === 'pending' || status?.bake?.state === 'running'
}

/** A request that the bake answers is none any more. */
function requestAfter({ request }: BakeFacts, bake: BakeStatus | undefined): BakeFacts['request'] {
  const isAnswered = request.kind === 'new' && request.value === bake?.observedRebake
  return isAnswered ? { kind: 'old', value: request.value } : request
}

/** What no watch tells of: a ServiceAccount or a claim that came, a pod that left. */
const LOOK_AGAIN_MS = 60_000
/** A template that nobody mends is looked at ever less often. */
const MOST_LOOK_AGAIN_MS = 900_000
/** The watch may be behind: what was read is as new as it gets. */
const CONFLICTSOfReconcileTemplate = 3

/** Brings the bake of one BoxTemplate in line with its spec (interface §3.3). The key is `<organization>/<name>`. */
export class TemplateReconciler implements Reconciler {
  readonly #context: TemplateContext

  constructor(context: TemplateContext) {
    this.#context = context
  }

  async reconcile(key: string): Promise<ReconcileResult> {
    const [namespace = '', name = ''] = key.split('/')
    let template = this.#context.book.get(namespace, name)
    for (let conflicts = 0; template; conflicts += 1) {
      try {
        return this.#next(await TemplateReconciliation.run(this.#context, template))
      } catch (error) {
        if (error instanceof ObjectGoneError) break
        if (!isApiError(error, 'Conflict') || conflicts === CONFLICTSOfReconcileTemplate) throw error
      }
      template = await this.#read(template)
    }
    this.#context.slots.release(key)
    return noRequeue()
  }

  async #read(template: BoxTemplate): Promise<BoxTemplate | undefined> {
    try {
      return await this.#context.writer.read(template)
    } catch (error) {
      if (error instanceof ObjectGoneError) return undefined
      throw error
    }
  }

  #next({ step, until, troubledSince }: ReconciliationOutcome): ReconcileResult {
    const now = this.#context.clock.now()
    // Not longer, since a clock may be set: then what is far away may be near.
    if (until !== undefined) return requeueAfter(Math.min(Math.max(0, until - now), MOST_LOOK_AGAIN_MS))
    if (step === 'wait') return requeueAfter(LOOK_AGAIN_MS)
    if (troubledSince === undefined) return noRequeue()
    const wait = Math.min(Math.max((now - troubledSince) / 2, LOOK_AGAIN_MS), MOST_LOOK_AGAIN_MS)
    // Those of one start of the controller do not come all at once for ever.
    return requeueAfter(Math.round(wait * (1 + this.#context.random.fraction() / 4)))
  }
}
