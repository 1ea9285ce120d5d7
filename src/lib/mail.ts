import { getCACertificates } from 'node:tls'
import { createTransport } from 'nodemailer'

export type Mail = { to: string[]; subject: string; text: string }

/** @returns how many recipients were accepted @throws MailError with the server's text, if none was */
export interface Mailer {
  send(mail: Mail): Promise<number>
}

export type MailerOptions = {
  /** smtp(s)://user:password@host:port; user and password percent-encoded. */
  url: string
  /** The sender: an address, or a name and an address in angle brackets. */
  from: string
  /** PEM of authorities to trust in addition to the known ones. */
  ca?: string | undefined
  /** For one whole mail. */
  deadlineMs?: number
}

/**
 * Why a mail was not accepted, in words that tenants may see: the server's if it sent any, else ours, without the
 * server's address. The library's error is the cause.
 */
export class MailError extends Error {
  override readonly name = 'MailError'
}

const DEADLINE_MS = 30_000
const MAX_RECIPIENTS = 50
const MAX_WORDS = 300
const SUBMISSION_PORT = 587
const SECURE_PORT = 465

/** One plain address, without display name, comment or list. */
const ADDRESS = /^[^\s\p{Cc}<>@,;:"()[\]\\]{1,64}@[^\s\p{Cc}<>@,;:"()\\]{1,255}$/u

const WORDS: Readonly<Record<string, string>> = {
  EAUTH: 'the mail server rejected the login',
  ENOAUTH: 'the mail server requires a login',
  EDNS: 'the host name of the mail server does not resolve',
  ECONNECTION: 'the mail server cannot be reached',
  ESOCKET: 'the mail server cannot be reached',
  ETIMEDOUT: 'the mail server does not respond',
  EABORT: 'the mail server does not respond',
  ETLS: 'failed to establish a TLS connection to the mail server',
  EPROTOCOL: 'the mail server does not speak SMTP',
}

/** One connection per mail, since mails are rare. A mail counts as sent if at least one recipient was accepted. */
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
      if (recipients.length === 0) throw new MailError('no valid email address to send to')
      try {
        const sent = await transport.sendMail({
          from: options.from,
          // Objects are not parsed again.
          to: recipients.map((address) => ({ name: '', address })),
          subject: oneLine(subject),
          text,
          // Suppresses automatic replies.
          headers: { 'auto-submitted': 'auto-generated' },
          xMailer: false,
          // Idle timeouts alone would let a slow server go on for ever.
          signal: AbortSignal.timeout(deadlineMs),
        })
        return sent.accepted.length
      } catch (error) {
        throw mailErrorOf(error)
      }
    },
  }
}

/** Alone, they would replace the known authorities. */
function authorities(ca: string | undefined) {
  return ca === undefined ? {} : { ca: [...getCACertificates('default'), ca] }
}

/** Parsed here, since a query in the URL could turn off certificate verification. */
function serverOf(text: string) {
  const url = new URL(text)
  const secure = url.protocol === 'smtps:'
  const user = decodeURIComponent(url.username)
  return {
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port === '' ? (secure ? SECURE_PORT : SUBMISSION_PORT) : Number(url.port),
    secure,
    // Passwords only over encrypted connections.
    requireTLS: !secure && user !== '',
    ...(user === '' ? {} : { auth: { user, pass: decodeURIComponent(url.password) } }),
  }
}

function mailErrorOf(error: unknown): MailError {
  const { code, response } = error as { code?: unknown; response?: unknown }
  const known = typeof code === 'string' ? WORDS[code] : undefined
  const text = typeof response === 'string' ? oneLine(response).slice(0, MAX_WORDS) : ''
  // The response to a login may repeat the credentials: drop it.
  if (code === 'EAUTH') return new MailError(known)
  const words = code === 'EPROTOCOL' ? text || known : (known ?? text)
  return new MailError(words || 'failed to send the email', { cause: error })
}

function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029]+/gu, ' ').trim()
}
