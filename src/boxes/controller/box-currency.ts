/**
 * Whether the box that is there was pulled with the credentials as they are now. A bake that succeeded is not repeated when a secret is
 * replaced, since the box works on; but its map names the version that the bake read, so it has to be seen which boxes are behind.
 */
import type { BakedService, BakeStatus } from '../../apis/bake.ts'
import { CREDENTIAL_PREFIX } from '../../apis/identifiers.ts'
import type { RegistryCredential } from '../../apis/registry-credential.ts'
import type { ConditionUpdate } from '../../kube/conditions.ts'

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

type Answer = Omit<ConditionUpdate, 'type'>
type Behind = { reason: string; words: string }
type BakedWith = NonNullable<BakedService['credential']>

/** So many are named; who has more bakes them all the same. */
const MAX_NAMED = 3

export function currentCondition(view: CurrentConditionInput): Answer {
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

const CURRENT: Answer = {
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
