import SMTPConnection, {
  type SMTPConnectionEnvelope,
  type SMTPEnvelope,
} from 'nodemailer/lib/smtp-connection'
import { type MailFailure, mailFailureOf } from './mail-failures.ts'

export type SmtpServer = {
  host: string
  port: number
  /** TLS from the start. */
  secure: boolean
  login: { user: string; pass: string } | undefined
  /** What the client calls itself; the library's default without one. */
  ehloName: string | undefined
  /** PEM of all authorities to trust; the known ones without any. */
  ca: string[] | undefined
  /** For the whole session. */
  deadlineMs: number
}

/** What became of each recipient of one email. */
export type SendResult = { accepted: string[]; refused: ({ address: string } & MailFailure)[] }

/** The library keeps its books on the object that it is given. */
type Envelope = SMTPEnvelope &
  Partial<Pick<SMTPConnectionEnvelope, 'accepted' | 'rejected' | 'rejectedErrors'>>

type Done<T> = (error: unknown, result?: T) => void

/** One connection to a mail server, from the greeting to its end. Its calls fail with the library's errors, which `mailFailureOf` explains. */
export class SmtpSession {
  readonly #server: SmtpServer
  readonly #connection: SMTPConnection
  /** Fails when the connection does, or at the deadline: idle timeouts alone would let a slow server go on for ever. */
  readonly #end: Promise<never>
  #extensions = ''

  constructor(server: SmtpServer) {
    this.#server = server
    const { deadlineMs, login, ehloName, ca } = server
    this.#connection = new SMTPConnection({
      host: server.host,
      port: server.port,
      secure: server.secure,
      // Passwords only over encrypted connections.
      requireTLS: !server.secure && login !== undefined,
      name: ehloName,
      connectionTimeout: deadlineMs,
      greetingTimeout: deadlineMs,
      socketTimeout: deadlineMs,
      dnsTimeout: deadlineMs,
      socketCloseTimeout: 0,
      tls: { minVersion: 'TLSv1.2', ...(ca === undefined ? {} : { ca }) },
    })
    this.#end = new Promise((_, reject) => {
      this.#connection.on('error', reject)
      const deadline = AbortSignal.timeout(deadlineMs)
      deadline.addEventListener('abort', () =>
        reject(
          Object.assign(new Error('the deadline has passed'), { code: 'EABORT', cause: deadline.reason }),
        ),
      )
    })
    // It may fail while no call waits for it.
    this.#end.catch(() => undefined)
  }

  /** Connects, and logs in if there is a login and the server offers one. */
  async open(): Promise<void> {
    await this.#step((done) => this.#connection.connect((error) => done(error)))
    this.#extensions = this.#connection.lastServerResponse || ''
    const { login } = this.#server
    if (login && this.#connection.allowsAuth)
      await this.#step((done) => this.#connection.login({ ...login }, done))
  }

  /** Whether the server takes addresses with other characters than ASCII before the @ (RFC 6531). */
  get supportsUtf8Addresses(): boolean {
    return /^\d{3}[ -]SMTPUTF8\s*$/im.test(this.#extensions)
  }

  /** Each recipient is accepted or refused, even if the session ends in between. */
  async send(from: string, to: readonly string[], message: Buffer): Promise<SendResult> {
    const envelope: Envelope = { from, to: [...to] }
    const refused = new Map<string, MailFailure>()
    try {
      await this.#step((done) => this.#connection.send(envelope, message, done))
    } catch (error) {
      const failure = mailFailureOf(error)
      for (const address of to) refused.set(address, failure)
    }
    const { rejected = [], rejectedErrors = [] } = envelope
    for (const [i, address] of rejected.entries()) refused.set(address, mailFailureOf(rejectedErrors[i]))
    return {
      accepted: to.filter((address) => !refused.has(address)),
      refused: [...refused].map(([address, failure]) => ({ address, ...failure })),
    }
  }

  /** Before another email in the same session, whatever became of the one before. */
  async reset(): Promise<void> {
    await this.#step((done) => this.#connection.reset(done))
  }

  close(): void {
    this.#connection.close()
  }

  async #step<T>(start: (done: Done<T>) => void): Promise<T> {
    const step = new Promise<T>((resolve, reject) => {
      start((error, result) => (error ? reject(error) : resolve(result as T)))
    })
    return await Promise.race([this.#end, step])
  }
}
