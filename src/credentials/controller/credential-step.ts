/** What a controller does next for a credential (credential-plan.ts), and what it was asked to do last. */
import type { CredentialStall, CredentialWait } from '../../apis/registry-credential.ts'
import type { ParameterLocation } from './facts.ts'

/** Every step has its reason, for the log. */
export type CredentialAction =
  | { step: 'nothing'; reason: string }
  | { step: 'refuse'; reason: CredentialStall; message: string }
  /** `until` where time alone changes the answer. */
  | { step: 'wait'; reason: CredentialWait; message: string; until?: number }
  | { step: 'add-finalizer' | 'drop-finalizer' | 'forget' | 'list'; reason: string }
  | { step: 'look' | 'remove' | 'record-orphan'; at: ParameterLocation; reason: string }
  | { step: 'put-new' | 'put-version'; at: ParameterLocation; handover: InputSecretRef; reason: string }
  | { step: 'adopt'; at: ParameterLocation; version: number; reason: string }
  | { step: 'delete-handover' | 'note-handover'; handover: InputSecretRef; reason: string }

/** The very object whose value was, or is to be, stored. `mark`: of one that is retained. */
export type InputSecretRef = { uid: string; resourceVersion: string; mark?: string | undefined }
