/**
 * Why a mail server did not accept an email: in Davit's words for owners, and whether another try can succeed. Failures are told apart by
 * the codes of replies and errors, never by the text of a message.
 */
import { oneLine } from './text.ts'

export type MailFailure = {
  /** For owners: Davit's words and the codes of the reply. The server's own text may name hosts and policies of the cluster operator. */
  reason: string
  /** The same email would get the same reply (RFC 5321 §4.2.1: 5yz, but see TOO_MANY_RECIPIENTS). */
  isPermanent: boolean
  /** `server`: it would reject every email, until a setting is changed. `email`: it rejected this one, or this recipient. */
  scope: 'server' | 'email'
  /** The server's own text, for the log of the cluster operator. */
  reply?: string | undefined
}

export const INVALID_ADDRESS: MailFailure = {
  reason: 'the address is not a valid email address',
  isPermanent: true,
  scope: 'email',
}
export const NO_UTF8_RECIPIENTS: MailFailure = {
  reason: 'the mail server supports only ASCII characters before the @ in an address (it lacks SMTPUTF8)',
  isPermanent: true,
  scope: 'email',
}
export const NO_UTF8_SENDER: MailFailure = {
  reason: `the mail server supports only ASCII characters before the @ in the sender address (it lacks SMTPUTF8). ${advice('change DAVIT_SMTP_FROM')}`,
  isPermanent: true,
  scope: 'server',
}

/** What the library says of a failure. */
type LibraryError = {
  code?: unknown
  /** Of the error that the library gave its own code, such as ECONNREFUSED. */
  originalCode?: unknown
  response?: unknown
  /** The command that failed, such as `RCPT TO`. */
  command?: unknown
}

export function mailFailureOf(error: unknown): MailFailure {
  const { code, originalCode, response, command } = Object(error) as LibraryError
  const reply = replyOf(response)
  if (!reply) {
    const reason = tlsReason(originalCode) ?? reasonWithoutReply(code, originalCode)
    return { reason, isPermanent: false, scope: 'server' }
  }
  const verb = String(command ?? '').split(' ', 1)[0] ?? ''
  return {
    reason: reasonOfReply(verb, reply),
    isPermanent: reply.isPermanent && !(verb === 'RCPT' && reply.code === TOO_MANY_RECIPIENTS),
    scope: (verb === 'RCPT' || verb === 'DATA') && !isAboutAccess(reply) ? 'email' : 'server',
    // The response to a login may repeat the credentials: drop it.
    ...(verb === 'AUTH' ? {} : { reply: reply.text }),
  }
}

/** A login or a right to relay is missing (RFC 3463: X.7), which many servers say only of the recipient. */
function isAboutAccess({ code, codes }: Reply): boolean {
  return code === LOGIN_REQUIRED || / 5\.7\./.test(codes)
}

type Reply = {
  code: string
  /** The code, and the enhanced one if there is one (RFC 3463): `550 5.1.1`. */
  codes: string
  isPermanent: boolean
  text: string
}

const REPLY = /^([2-5]\d\d)(?:[ -](?:([245]\.\d{1,3}\.\d{1,3})(?!\S))?|$)/
const MAX_TEXT = 300

function replyOf(response: unknown): Reply | undefined {
  if (typeof response !== 'string') return undefined
  const [match, code, enhanced] = REPLY.exec(response) ?? []
  if (match === undefined || code === undefined) return undefined
  return {
    code,
    codes: enhanced === undefined ? code : `${code} ${enhanced}`,
    isPermanent: code.startsWith('5'),
    text: oneLine(response).slice(0, MAX_TEXT),
  }
}

function advice(what: string): string {
  return `Ask your cluster operator to ${what}`
}

/** The server closes the connection, whatever it was asked (RFC 5321 §3.8). */
const CLOSING = '421'
const LOGIN_REQUIRED = '530'
/** Some servers reply with it to a recipient too many, or to a full mailbox, so as RCPT's reply it is temporary (RFC 5321 §4.5.3.1.10). */
const TOO_MANY_RECIPIENTS = '552'

function reasonOfReply(verb: string, { code, codes }: Reply): string {
  if (code === LOGIN_REQUIRED)
    return `the mail server requires a login (${codes}). ${advice('add a user name and a password to DAVIT_SMTP_URL')}`
  switch (verb) {
    case 'EHLO':
    case 'HELO':
      return code === CLOSING
        ? `the mail server closed the connection after EHLO (${codes}). ${advice('check DAVIT_SMTP_EHLO_NAME')}`
        : `the mail server rejected the name in EHLO (${codes}). ${advice('set DAVIT_SMTP_EHLO_NAME')}`
    case 'STARTTLS':
      return `${NO_TLS}: it rejected STARTTLS (${codes}). ${advice('check the port in DAVIT_SMTP_URL')}`
    case 'AUTH':
      return `the mail server rejected the login (${codes}). ${advice('check the user name and password in DAVIT_SMTP_URL')}`
    case 'MAIL':
      return `the mail server rejected the sender (${codes}). ${advice('check DAVIT_SMTP_FROM')}`
    case 'RCPT':
      return `the mail server rejected the recipient (${codes})`
    case 'DATA':
      return `the mail server rejected the email (${codes})`
    default:
      return code === CLOSING
        ? `the mail server closed the connection (${codes})`
        : `the mail server rejected the connection (${codes})`
  }
}

const NOT_TRUSTED = `the certificate of the mail server is not trusted. ${advice('add its certificate authority to extraCa (DAVIT_EXTRA_CA_FILE)')}`
const NO_TLS = 'a TLS connection to the mail server could not be established'

/** By the code of Node or OpenSSL. */
const TLS_REASONS: readonly (readonly [string, ...string[]])[] = [
  ['the certificate of the mail server has expired', 'CERT_HAS_EXPIRED'],
  ['the certificate of the mail server is not valid yet', 'CERT_NOT_YET_VALID'],
  ['the certificate of the mail server has been revoked', 'CERT_REVOKED'],
  [
    `the certificate of the mail server is for another host name. ${advice('set DAVIT_SMTP_URL to a host name that the certificate covers')}`,
    'ERR_TLS_CERT_ALTNAME_INVALID',
    'HOSTNAME_MISMATCH',
  ],
  [
    `${NO_TLS}: it does not respond with TLS. ${advice('check that the port in DAVIT_SMTP_URL matches its scheme (smtp:// or smtps://)')}`,
    'ERR_SSL_WRONG_VERSION_NUMBER',
    'ERR_SSL_PACKET_LENGTH_TOO_LONG',
  ],
  [
    `${NO_TLS}: it does not support TLS 1.2 or later`,
    'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION',
    'ERR_SSL_UNSUPPORTED_PROTOCOL',
  ],
]
const TLS_REASON_OF = new Map(
  TLS_REASONS.flatMap(([reason, ...codes]) => codes.map((code) => [code, reason])),
)

/** What OpenSSL calls the other problems of a certificate. */
const CERTIFICATE =
  /^(CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH_|ERROR_IN_CERT_)/
const TLS = /^(ERR_SSL_|ERR_TLS_|EPROTO$)/

function tlsReason(code: unknown): string | undefined {
  if (typeof code !== 'string') return undefined
  const known = TLS_REASON_OF.get(code)
  if (known !== undefined) return known
  if (CERTIFICATE.test(code)) return NOT_TRUSTED
  return TLS.test(code) ? NO_TLS : undefined
}

const UNREACHABLE: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EHOSTDOWN',
  'ENETDOWN',
  'EADDRNOTAVAIL',
  'EACCES',
  'EPERM',
])
/** Undefined: it closed the connection in good order. */
const CLOSED: ReadonlySet<unknown> = new Set([undefined, 'ECONNRESET', 'ECONNABORTED', 'EPIPE'])
const SILENT = 'the mail server does not respond'

function reasonWithoutReply(code: unknown, originalCode: unknown): string {
  switch (code) {
    case 'EDNS':
      return 'the host name of the mail server does not resolve'
    case 'ETIMEDOUT':
    case 'EABORT':
      return SILENT
    case 'ETLS':
      return NO_TLS
    case 'EPROTOCOL':
      return 'the mail server does not speak SMTP'
    case 'EAUTH':
      return 'the mail server does not support login with a user name and password'
    case 'ECONNECTION':
    case 'ESOCKET':
      if (UNREACHABLE.has(originalCode)) return 'the mail server cannot be reached'
      if (originalCode === 'ETIMEDOUT') return SILENT
      if (CLOSED.has(originalCode)) return 'the mail server closed the connection'
  }
  return 'the connection to the mail server failed'
}
