/** The steps of a bake, taken. */

import type { Request } from '../../apis/annotations.ts'
import type { BakedService, BakeStatus } from '../../apis/bake.ts'
import { jobs } from '../../apis/core-kinds.ts'
import { verificationsOf } from '../../credentials/controller/credential-verified.ts'
import { type ApiError, isApiError } from '../../kube/client.ts'
import { sanitizeText } from '../../lib/plain-text.ts'
import { bakeFailure } from './bake-failure.ts'
import { buildBakeJob, buildBakeOrder, hasBakeLabels } from './bake-job.ts'
import { bakeName } from './bake-name.ts'
import type { TemplateReconciliation } from './bake-pass.ts'
import type { PreparedService } from './bake-problem.ts'
import { bakeJob as bakeJobSchema } from './bake-run.ts'
import { isOwnedBy } from './gather.ts'
import type { GatheredBake } from './gather-bake.ts'
import type { BakeOutcome } from './outcome.ts'
import { type BakeAction, finishAction } from './plan.ts'
import { recordVerifications } from './record-verified.ts'
import { templateReference } from './template-writer.ts'

/** What changes something. */
type ChangingAction = Exclude<BakeAction, { step: 'nothing' | 'wait' }>
type Finish = Extract<BakeAction, { step: 'finish' }>

/** @throws ObjectGoneError, ApiError */
export async function applyBakeAction(
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

export async function removeJob(
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
