/** What a registry's user name must be: a login sends it and the secret with a colon between. */
import { codePoints } from '../apis/meta.ts'
import { MAX_USERNAME } from '../apis/registry-credential.ts'

/** @returns what is wrong, in words that follow "username" */
export function registryUsernameProblem(username: string): string | undefined {
  if (username === '') return 'must not be empty'
  if (codePoints(username) > MAX_USERNAME) return `must have at most ${MAX_USERNAME} characters`
  if (username.includes(':')) return 'must not have a colon: what follows it would be taken for the secret'
  if (/\p{Cc}/u.test(username)) return 'must not have control characters'
  return undefined
}
