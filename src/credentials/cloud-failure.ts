/** A failure of the cloud as a value, in the words of the port's error. */
export type CloudFailure = {
  /** What can be done about it. */
  remedy: 'retry' | 'permissions' | 'spec' | 'gone'
  /** The provider's own word. */
  code: string
  /** What was refused, such as `ssm:PutParameter`. */
  operation?: string | undefined
  message: string
}

/** For messages of conditions: the code first, which is what people look up. */
export function failureText({ code, operation, message }: CloudFailure): string {
  const what = operation ? `${code} (${operation})` : code
  return message === '' ? what : `${what}: ${message.replace(/\.+$/, '')}`
}
