import type { BakedService, BakeFailure, BakeStatus } from '../../apis/bake.ts'
import { CREDENTIAL_PREFIX } from '../../apis/ids.ts'
import type { RegistryCredential } from '../../apis/registry-credential.ts'
import type { ConditionUpdate } from '../../kube/status.ts'
import type { BakeProblem } from './bake-job.ts'
import { failureReason } from './outcome.ts'

/**
 * Whether the box that is there was pulled with the credentials as they are now. A bake that succeeded is not repeated when a secret is
 * replaced, since the box works on; but its map names the version that the bake read, so it has to be seen which boxes are behind.
 */

export type CurrentConditionInput = {
  bake: BakeStatus | undefined
  /** Of the template. */
  generation: number
  credentialState: string
  /** Names of those that the template names. */
  names: readonly string[]
  /** Those of them that are there, by name. */
  credentials: ReadonlyMap<string, RegistryCredential>
}

type AnswerOfBoxCurrency = Omit<ConditionUpdate, 'type'>
type Behind = { reason: string; words: string }
type BakedWith = NonNullable<BakedService['credential']>

/** So many are named; who has more bakes them all the same. */
const MAX_NAMED = 3

export function currentCondition(view: CurrentConditionInput): AnswerOfBoxCurrency {
  const services = servicesOf(view.bake)
  if (services === undefined)
    return { status: 'Unknown', reason: 'NothingBaked', message: 'There is no box yet.' }
  const used = new Map(
    services.flatMap(({ credential }) => (credential ? [[credential.id, credential]] : [])),
  )
  const found = [...used.values()].flatMap((credential) => behind(view, credential) ?? [])
  const [first, ...others] = found.length === 0 && isReplaced(view) ? [REPLACED] : found
  if (first === undefined) return CURRENT
  const named = [first, ...others].slice(0, MAX_NAMED).map(({ words }) => words)
  const more = found.length > MAX_NAMED ? [`So it is with ${found.length - MAX_NAMED} more.`] : []
  return { status: 'False', reason: first.reason, message: [...named, ...more, WHAT_TO_DO].join(' ') }
}

const CURRENT: AnswerOfBoxCurrency = {
  status: 'True',
  reason: 'AsBaked',
  message: 'The credentials are those that the box was baked with.',
}
const WHAT_TO_DO = 'Ask for another bake (davit.dev/rebake-requested-at), and bring its map to the machines.'
const REPLACED: Behind = {
  reason: 'CredentialChanged',
  words: 'A credential was deleted since the bake, and made again.',
}

/** Of the box that is there. */
function servicesOf(bake: BakeStatus | undefined): readonly BakedService[] | undefined {
  return bake?.state === 'succeeded' ? (bake.services ?? []) : bake?.lastSucceeded?.services
}

/** What the numbers do not show, since those of another one begin anew. */
function isReplaced({ bake, generation, credentialState }: CurrentConditionInput): boolean {
  return (
    bake?.state === 'succeeded' && bake.generation === generation && bake.credentialState !== credentialState
  )
}

function behind(
  { names, credentials }: CurrentConditionInput,
  { id, parameterVersion, generation }: BakedWith,
): Behind | undefined {
  const name = id.slice(CREDENTIAL_PREFIX.length)
  // A template that names others now is baked with them.
  if (!names.includes(name)) return undefined
  const credential = credentials.get(name)
  if (credential === undefined)
    return { reason: 'CredentialGone', words: `${id} is gone, and with it what the box pulls with.` }
  const version = credential.status?.parameter?.version
  if (parameterVersion !== undefined && version !== undefined && version !== parameterVersion)
    return {
      reason: 'SecretReplaced',
      words: `The box was baked with version ${parameterVersion} of the secret of ${id}, which has version ${version} now.`,
    }
  if (generation === undefined || credential.metadata.generation === generation) return undefined
  return { reason: 'CredentialChanged', words: `${id} was changed since the bake.` }
}

/** What the conditions of a template say, so that kstatus reads them right. `Ready` follows from the last bake; it is never set by hand. */

type Answer = Omit<ConditionUpdate, 'type'>

export type TemplateView = {
  /** As it will be. */
  bake: BakeStatus | undefined
  /** What would keep a bake from being begun now. */
  problem: BakeProblem | undefined
  /** Another bake is due: the last one does not answer what is wanted. */
  isDue: boolean
  /** What a bake that is due waits for, in words. */
  waitsFor?: string | undefined
  /** Whether the box was baked with the credentials as they are (box-currency.ts). */
  current: Answer
}

export function templateFindings(view: TemplateView): ConditionUpdate[] {
  return [
    { type: 'Ready', ...ready(view) },
    { type: 'Reconciling', ...reconciling(view) },
    { type: 'Stalled', ...stalled(view) },
    { type: 'Succeeded', ...succeeded(view.bake) },
    { type: 'Current', ...view.current },
  ]
}

function ready({ bake, problem, isDue, waitsFor }: TemplateView): Answer {
  if (problem) return { status: 'False', ...problemWords(problem) }
  if (isDue || !bake) return { status: 'False', ...due(waitsFor) }
  const answer = succeeded(bake)
  return answer.status === 'Unknown' ? { ...answer, status: 'False' } : answer
}

const DUE = { reason: 'Baking', message: 'A bake is due.' }

function due(waitsFor: string | undefined): { reason: string; message: string } {
  return waitsFor === undefined
    ? DUE
    : { reason: 'Waiting', message: `A bake is due, and waits: ${waitsFor}.` }
}

function succeeded(bake: BakeStatus | undefined): Answer {
  if (bake?.state === 'succeeded') {
    const count = bake.services?.length ?? 0
    const message = count === 1 ? 'The image was pulled.' : `The images of ${count} services were pulled.`
    return { status: 'True', reason: 'Baked', message }
  }
  if (bake?.state === 'failed' && bake.failure) return { status: 'False', ...failureWords(bake.failure) }
  const message = bake === undefined ? DUE.message : BAKING[bake.state === 'running' ? 'running' : 'pending']
  return { status: 'Unknown', reason: 'Baking', message }
}

const BAKING = {
  pending: 'The pod of the bake does not run yet.',
  running: 'The images are being pulled.',
}

function reconciling({ bake, problem, isDue, waitsFor }: TemplateView): Answer {
  if (bake?.state === 'pending' || bake?.state === 'running')
    return { status: 'True', reason: 'Baking', message: BAKING[bake.state] }
  if (problem?.waits) return { status: 'True', ...problemWords(problem) }
  if (problem) return UP_TO_DATE
  if (isDue || !bake) return { status: 'True', ...due(waitsFor) }
  if (bake.nextAttemptAt !== undefined)
    return {
      status: 'True',
      reason: 'Retrying',
      message: `Attempt ${bake.attempts} failed; the next is at ${bake.nextAttemptAt}.`,
    }
  return UP_TO_DATE
}

const UP_TO_DATE: Answer = {
  status: 'False',
  reason: 'UpToDate',
  message: 'The status speaks of the current spec.',
}

/** What nothing but a change, by somebody, can mend. */
function stalled(view: TemplateView): Answer {
  const { bake, problem } = view
  if (reconciling(view).status === 'True') return NOTHING_TO_MEND
  if (problem) return { status: 'True', ...problemWords(problem) }
  if (bake?.state === 'failed' && bake.failure) return { status: 'True', ...failureWords(bake.failure) }
  return NOTHING_TO_MEND
}

const NOTHING_TO_MEND: Answer = {
  status: 'False',
  reason: 'NothingToMend',
  message: 'Nothing waits for somebody to act.',
}

function problemWords({ service, code, message }: BakeProblem): { reason: string; message: string } {
  return { reason: failureReason(code), message: about(service, message) }
}

/** What to do comes first: a condition has less room than the status has for the words of a tool. */
function failureWords({ service, code, message, fix }: BakeFailure): { reason: string; message: string } {
  const words = message === '' ? '' : ` The words: ${message}`
  return { reason: failureReason(code), message: about(service, `${fix}${words}`) }
}

function about(service: string | undefined, words: string): string {
  return service === undefined ? words : `Service ${service}: ${words}`
}
