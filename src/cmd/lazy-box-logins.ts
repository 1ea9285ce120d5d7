import type { BoxLogins } from '../credentials/box-logins.ts'

/** Logins of a box, from AWS. Nothing of that is loaded before one is asked for: most pulls need none of it. */
export function lazyBoxLogins(): BoxLogins {
  return {
    async login(credential, pod) {
      const { boxLogins } = await import('./node-logins.ts')
      return await boxLogins().login(credential, pod)
    },
  }
}
