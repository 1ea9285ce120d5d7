/**
 * Carries out one action of the plan for a bake (plan.ts). Every action returns the template as it is afterwards; the reconciler
 * passes it on to the next round. An action may be interrupted at any point: the next round then decides on what was written.
 */
import type { Request } from '../../apis/annotations.ts'
import type { BakedService, BakeStatus } from '../../apis/bake.ts'
import { type BoxTemplate, boxTemplateKind, REBAKE_ANNOTATION } from '../../apis/box-template.ts'
import { jobs } from '../../apis/core-kinds.ts'
import { CREDENTIAL_PREFIX } from '../../apis/ids.ts'
import { API_VERSION } from '../../apis/meta.ts'
import {
  type CredentialVerification,
  type RegistryCredential,
  registryCredential,
  registryCredentials,
} from '../../apis/registry-credential.ts'
import { isNewer, verificationsOf } from '../../credentials/controller/conditions.ts'
import { isApiError, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import { mergeConditions, statusPatch } from '../../kube/status.ts'
import { sanitizeText } from '../../lib/text.ts'
import { bakeName, buildBakeJob, buildBakeOrder, hasBakeLabels } from './bake-job.ts'
import { currentCondition, fixWithDetails, templateFindings } from './conditions.ts'
import { type GatheredBake, isOwnedBy, type TemplateContext } from './gather.ts'
import { type BakeOutcome, bakeFailure, bakeJob as bakeJobSchema } from './outcome.ts'
import { type BakeAction, dueReason, finishAction } from './plan.ts'
import type { PreparedService } from './service-credentials.ts'

type ActionOf<Step extends BakeAction['step']> = Extract<BakeAction, { step: Step }>

/** @throws ObjectGoneError, ApiError */
export async function applyAction(
  context: TemplateContext,
  gathered: GatheredBake,
  action: Exclude<BakeAction, { step: 'nothing' | 'wait' }>,
): Promise<BoxTemplate> {
  switch (action.step) {
    case 'start':
      return await start(context, gathered, action)
    case 'refuse':
      return await refuse(context, gathered, action)
    case 'create':
      return await createJob(context, gathered, action.job)
    case 'run':
      return await writeStatus(context, gathered, { ...currentBake(gathered), state: 'running' })
    case 'finish':
      return await finish(context, gathered, action)
    case 'remove-job':
      await removeJob(context, gathered.template, action)
      return gathered.template
    case 'ignore-request':
      recordRequestRefused(context, gathered.template, action.message)
      return await writeStatus(context, gathered, { ...currentBake(gathered), observedRebake: action.value })
  }
}

/** Writes this bake and the conditions that follow from it. @param waitsFor what a bake that is due waits for */
export async function writeStatus(
  { writer }: TemplateContext,
  { template, facts, names, credentials }: GatheredBake,
  bake: BakeStatus | undefined,
  waitsFor?: string,
): Promise<BoxTemplate> {
  const { now, generation, problem, credentialState, request } = facts
  const isAnswered = request.kind === 'new' && request.value === bake?.observedRebake
  const isDue =
    dueReason({ ...facts, bake, request: isAnswered ? { kind: 'old', value: request.value } : request }) !==
    undefined
  const current = currentCondition({ bake, generation, credentialState, names, credentials })
  const findings = templateFindings({ bake, problem, isDue, waitsFor, current })
  return await writer.updateStatus(template, {
    bake,
    observedGeneration: generation,
    conditions: mergeConditions(template.status?.conditions, findings, { now, generation }),
  })
}

function currentBake({ facts }: GatheredBake): BakeStatus {
  if (!facts.bake) throw new Error('the action requires a bake')
  return facts.bake
}

/** Makes the Job's name durable before the Job exists, so that a retry creates the same Job or finds it. */
async function start(
  context: TemplateContext,
  gathered: GatheredBake,
  { attempts, reason }: ActionOf<'start'>,
): Promise<BoxTemplate> {
  const { facts, services, template } = gathered
  const { name, namespace, uid } = template.metadata
  const { now, generation, request, credentialState, bake } = facts
  const number = (bake?.number ?? 0) + 1
  const rebake = observedRebake(request, bake)
  const job = bakeName({ template: name, uid, generation, rebake, number })
  if (request.kind === 'invalid') recordRequestRefused(context, template, request.message)
  const written = await writeStatus(context, gathered, {
    state: 'pending',
    number,
    job,
    attempts,
    generation,
    observedRebake: rebake,
    credentialState,
    startedAt: new Date(now).toISOString(),
    services: services.map(bakedService),
    ...lastSucceeded(bake),
  })
  context.log.info('bake_started', 'started bake', { namespace, template: name, job, reason, attempts })
  return written
}

/** The value of the rebake annotation that this bake answers. */
function observedRebake(request: Request, bake: BakeStatus | undefined): string | undefined {
  return request.kind === 'new' || request.kind === 'invalid' ? request.value : bake?.observedRebake
}

function bakedService({ name, image, credential, why = '' }: PreparedService): BakedService {
  if (credential === undefined) return { name, image }
  const { id, generation, parameter } = credential
  return { name, image, credential: { id, parameterVersion: parameter?.version, generation, why } }
}

/** The box that stays in place until the next bake succeeds. */
function lastSucceeded(bake: BakeStatus | undefined): Pick<BakeStatus, 'lastSucceeded'> {
  if (bake?.state !== 'succeeded') return bake?.lastSucceeded ? { lastSucceeded: bake.lastSucceeded } : {}
  const { job, completedAt, services } = bake
  return { lastSucceeded: { job, completedAt, services } }
}

async function refuse(
  context: TemplateContext,
  gathered: GatheredBake,
  { problem: { service, code, message } }: ActionOf<'refuse'>,
): Promise<BoxTemplate> {
  const { now, generation, request, credentialState, bake } = gathered.facts
  const at = new Date(now).toISOString()
  const rebake = observedRebake(request, bake)
  const failure = bakeFailure({ step: 'check', code, message, service })
  const written = await writeStatus(context, gathered, {
    state: 'failed',
    number: bake?.number ?? 0,
    attempts: 0,
    generation,
    observedRebake: rebake,
    credentialState,
    startedAt: at,
    completedAt: at,
    failure,
    ...lastSucceeded(bake),
  })
  reportBakeEnd(context, written, { services: [], failure }, 0)
  return written
}

async function createJob(
  context: TemplateContext,
  gathered: GatheredBake,
  name: string,
): Promise<BoxTemplate> {
  const { settings, resources, events } = context
  const { template, services, roleArn } = gathered
  if (settings.image === undefined) throw new Error('the Job requires an image')
  const bakeSettings = { ...settings, image: settings.image }
  const { startedAt } = currentBake(gathered)
  const order = buildBakeOrder(template, { name, services, startedAt }, bakeSettings)
  try {
    await resources.create(jobs, buildBakeJob({ template, order, settings: bakeSettings, roleArn }))
    events.record(templateReference(template), {
      type: 'Normal',
      reason: 'BakeStarted',
      message: `Davit created the Job ${name}.`,
    })
    return template
  } catch (error) {
    if (isApiError(error, 'AlreadyExists')) return await adoptExistingJob(context, gathered, name)
    if (!isApiError(error, 'Quota', 'Forbidden', 'Invalid', 'BadRequest')) throw error
    const code = error.kind === 'Quota' ? 'quota' : 'pod_rejected'
    const failure = bakeFailure({ step: 'start', code, message: sanitizeText(error.message, 1000) })
    const outcome: BakeOutcome = { services: [], failure }
    // The API server may still know an earlier version of the template, or of the policy during an upgrade.
    const isTransient = error.isByPolicy || undefined
    const action = finishAction(gathered.facts, currentBake(gathered), outcome, isTransient)
    return await finish(context, gathered, action)
  }
}

/** An earlier try may have created the Job without learning so. A Job that is not ours ends the bake. */
async function adoptExistingJob(
  context: TemplateContext,
  gathered: GatheredBake,
  name: string,
): Promise<BoxTemplate> {
  const { template } = gathered
  const { namespace = '', uid } = template.metadata
  const job = bakeJobSchema.parse(await context.resources.get(jobs, { namespace, name }))
  const isOwn = isOwnedBy(job, uid)
  // Without the labels no list contains the Job, and every round would create it again.
  if (isOwn && hasBakeLabels(job.metadata.labels, template.metadata.name)) return template
  const message = isOwn
    ? `The labels that Davit uses to find the Job ${name} were changed.`
    : `The namespace contains a Job ${name} that Davit did not create.`
  const failure = bakeFailure({ step: 'start', code: 'pod_rejected', message })
  return await finish(context, gathered, { step: 'finish', outcome: { services: [], failure } })
}

/** Updates the credentials first. A crash in between repeats that, which changes nothing. */
async function finish(
  context: TemplateContext,
  gathered: GatheredBake,
  { outcome, nextAttemptAt }: ActionOf<'finish'>,
): Promise<BoxTemplate> {
  const bake = currentBake(gathered)
  const { services = [], failure: _last, nextAttemptAt: _planned, lastSucceeded: kept, ...rest } = bake
  const { namespace = '', name } = gathered.template.metadata
  const { now } = gathered.facts
  const startedAt = Date.parse(bake.startedAt ?? '') || now
  for (const [id, verified] of verificationsOf({ template: name, services }, outcome.services, now)) {
    const ref = { namespace, name: id.slice(CREDENTIAL_PREFIX.length) }
    await recordVerification(context.resources, ref, verified, startedAt)
  }
  const { failure } = outcome
  const written = await writeStatus(context, gathered, {
    ...rest,
    state: failure ? 'failed' : 'succeeded',
    completedAt: new Date(now).toISOString(),
    services: failure ? services : services.map((service) => withDigest(service, outcome)),
    ...(failure ? { failure, ...(kept ? { lastSucceeded: kept } : {}) } : {}),
    ...(nextAttemptAt === undefined ? {} : { nextAttemptAt: new Date(nextAttemptAt).toISOString() }),
  })
  reportBakeEnd(context, written, outcome, now - startedAt)
  return written
}

function withDigest(service: BakedService, { services }: BakeOutcome): BakedService {
  const digest = services.find(({ name }) => name === service.name)?.digest
  return digest === undefined ? service : { ...service, digest }
}

const MAX_CONFLICTS = 5

/**
 * Writes `status.verified` of a credential: how the registry answered its login. The credential's own controller derives the
 * condition, so that only one controller writes conditions.
 * @throws ApiError
 */
async function recordVerification(
  resources: ResourceReader & ResourceWriter,
  ref: { namespace: string; name: string },
  verified: CredentialVerification,
  startedAt: number,
): Promise<void> {
  for (let conflicts = 0; ; conflicts += 1) {
    try {
      const found = registryCredential.parse(await resources.get(registryCredentials, ref))
      const patch = verificationPatch(found, verified, startedAt)
      if (patch) await resources.patch(registryCredentials, ref, patch, { subresource: 'status' })
      return
    } catch (error) {
      // A credential that is gone or cannot be written must not keep the bake from ending.
      if (isApiError(error, 'NotFound', 'Invalid')) return
      if (!isApiError(error, 'Conflict') || conflicts === MAX_CONFLICTS) throw error
    }
  }
}

/** Undefined if there is nothing to write. */
function verificationPatch(
  { metadata, status = { observedGeneration: -1 } }: RegistryCredential,
  verified: CredentialVerification,
  startedAt: number,
): object | undefined {
  // Created after the bake started: another credential under the same name.
  if (Date.parse(metadata.creationTimestamp ?? '') > startedAt) return undefined
  if (!isNewer(verified, status.verified)) return undefined
  const change = statusPatch({ verified: status.verified }, { verified })
  return change && { metadata: { resourceVersion: metadata.resourceVersion }, status: change }
}

export async function removeJob(
  { resources, log }: TemplateContext,
  { metadata: { namespace = '', name } }: BoxTemplate,
  { job, reason }: Omit<ActionOf<'remove-job'>, 'step'>,
): Promise<void> {
  const ref = { namespace, name: job }
  try {
    const { uid } = bakeJobSchema.parse(await resources.get(jobs, ref)).metadata
    await resources.delete(jobs, ref, { uid }, { dependents: 'Background' })
    log.info('bake_job_deleted', 'deleted bake Job', { namespace, template: name, job, reason })
  } catch (error) {
    // Gone or created again in the meantime: the next round finds out.
    if (!isApiError(error, 'NotFound', 'Conflict')) throw error
  }
}

function recordRequestRefused({ events }: TemplateContext, template: BoxTemplate, message: string): void {
  const text = `${REBAKE_ANNOTATION}: ${message}`
  events.record(templateReference(template), { type: 'Warning', reason: 'RequestRefused', message: text })
}

function reportBakeEnd(
  { events, metrics }: TemplateContext,
  template: BoxTemplate,
  { failure }: BakeOutcome,
  durationMs: number,
): void {
  metrics.baked(failure?.code ?? 'succeeded', durationMs / 1000)
  const regarding = templateReference(template)
  if (!failure) {
    events.record(regarding, {
      type: 'Normal',
      reason: 'Baked',
      message: 'The images for all services were pulled.',
    })
    return
  }
  const { code, service, step } = failure
  const where = service === undefined ? '' : ` for service ${service}`
  const text = `The bake failed in step \`${step}\`${where} (${code}). ${fixWithDetails(failure)}`
  events.record(regarding, { type: 'Warning', reason: 'BakeFailed', message: sanitizeText(text, 1000) })
}

function templateReference({ metadata }: BoxTemplate) {
  return { apiVersion: API_VERSION, kind: boxTemplateKind.kind, metadata }
}
