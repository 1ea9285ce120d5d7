/** An object that the API server has stored and that this version cannot use. Nothing of it is in the message. */
export class UnreadableError extends Error {
  override readonly name = 'UnreadableError'
  /** `<namespace>/<name>` */
  readonly object: string

  constructor(kind: string, object: string) {
    super(`the ${kind} ${object} does not fit the rules of this version`)
    this.object = object
  }
}
