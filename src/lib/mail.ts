import { getCACertificates } from 'node:tls'
import { createTransport } from 'nodemailer'

export type Mail = { to: string[]; subject: string; text: string }

/** Sends one mail. @returns for how many of the recipients it was accepted @throws Error, with the server's words, when for none */
export interface Mailer {
  send(mail: Mail): Promise<number>
}

/** Sends mail through the operator's mail server. */

export type MailerOptions = {
  /** smtp(s)://user:password@host:port, user and password percent-encoded. */
  url: string
  /** The sender: an address, or a name and an address in angle brackets. */
  from: string
  /** PEM of authorities that are trusted besides the known ones. */
  ca?: string | undefined
  /** Over one whole mail. */
  deadlineMs?: number
}

/**
 * Why a mail was not accepted, in words that tenants may see: the server's where it spoke, else ours, without
 * the address of the mail server. The library's error is the cause.
 */
export class MailError extends Error {
  override readonly name = 'MailError'
}

const DEADLINE_MS = 30_000
const MAX_RECIPIENTS = 50
const MAX_WORDS = 300
const SUBMISSION_PORT = 587
const SECURE_PORT = 465

/** No display names, comments or lists: one plain address. */
const ADDRESS = /^[^\s\p{Cc}<>@,;:"()[\]\\]{1,64}@[^\s\p{Cc}<>@,;:"()\\]{1,255}$/u

const WORDS: Readonly<Record<string, string>> = {
  EAUTH: 'the mail server refused the login',
  ENOAUTH: 'the mail server wants a login',
  EDNS: 'the name of the mail server does not resolve',
  ECONNECTION: 'the mail server cannot be reached',
  ESOCKET: 'the mail server cannot be reached',
  ETIMEDOUT: 'the mail server does not answer',
  EABORT: 'the mail server does not answer',
  ETLS: 'no secure connection to the mail server',
  EPROTOCOL: 'the mail server does not speak SMTP',
}

/** One connection for each mail: mails are rare. A mail counts as sent when one recipient at least was accepted. */
export function createMailer(options: MailerOptions): Mailer {
  const deadlineMs = options.deadlineMs ?? DEADLINE_MS
  const transport = createTransport({
    ...serverOf(options.url),
    connectionTimeout: deadlineMs,
    greetingTimeout: deadlineMs,
    socketTimeout: deadlineMs,
    dnsTimeout: deadlineMs,
    socketCloseTimeout: 0,
    tls: { minVersion: 'TLSv1.2', ...authorities(options.ca) },
    disableFileAccess: true,
    disableUrlAccess: true,
  })
  return {
    async send({ to, subject, text }) {
      const recipients = [...new Set(to)].filter((address) => ADDRESS.test(address)).slice(0, MAX_RECIPIENTS)
      if (recipients.length === 0) throw new MailError('there is no valid e-mail address to send to')
      try {
        const sent = await transport.sendMail({
          from: options.from,
          // As objects they are not parsed again.
          to: recipients.map((address) => ({ name: '', address })),
          subject: oneLine(subject),
          text,
          // Keeps holiday answers away.
          headers: { 'auto-submitted': 'auto-generated' },
          xMailer: false,
          // Idle timeouts alone would let a server that speaks slowly go on for ever.
          signal: AbortSignal.timeout(deadlineMs),
        })
        return sent.accepted.length
      } catch (error) {
        throw mailErrorOf(error)
      }
    },
  }
}

/** Given alone, further authorities would replace the known ones. */
function authorities(ca: string | undefined) {
  return ca === undefined ? {} : { ca: [...getCACertificates('default'), ca] }
}

/** Taken apart here: in the address form, a query could switch the verification of certificates off. */
function serverOf(text: string) {
  const url = new URL(text)
  const secure = url.protocol === 'smtps:'
  const user = decodeURIComponent(url.username)
  return {
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port === '' ? (secure ? SECURE_PORT : SUBMISSION_PORT) : Number(url.port),
    secure,
    // A password goes over an encrypted connection or not at all.
    requireTLS: !secure && user !== '',
    ...(user === '' ? {} : { auth: { user, pass: decodeURIComponent(url.password) } }),
  }
}

function mailErrorOf(error: unknown): MailError {
  const { code, response } = error as { code?: unknown; response?: unknown }
  const known = typeof code === 'string' ? WORDS[code] : undefined
  const said = typeof response === 'string' ? oneLine(response).slice(0, MAX_WORDS) : ''
  // The answer to a login may repeat what was sent: it goes nowhere.
  if (code === 'EAUTH') return new MailError(known)
  const words = code === 'EPROTOCOL' ? said || known : (known ?? said)
  return new MailError(words || 'the mail could not be sent', { cause: error })
}

function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029]+/gu, ' ').trim()
}
