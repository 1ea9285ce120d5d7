/** Something that whoever runs the set-up has to put right; the message says how. */
export class SetupError extends Error {
  name = 'SetupError'
}
