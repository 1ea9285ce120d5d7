/** A problem that the user of the set-up must fix; the message says how. */
export class SetupError extends Error {
  name = 'SetupError'
}
