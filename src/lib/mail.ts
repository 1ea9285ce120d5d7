import { getCACertificates } from 'node:tls'
import { domainToASCII, domainToUnicode } from 'node:url'
import MailComposer from 'nodemailer/lib/mail-composer'
import {
  INVALID_ADDRESS,
  type MailFailure,
  mailFailureOf,
  NO_UTF8_RECIPIENTS,
  NO_UTF8_SENDER,
} from './mail-failures.ts'
import { SmtpSession } from './smtp-session.ts'
import { oneLine } from './text.ts'

export type Mail = { to: string[]; subject: string; text: string }

/** Every address of `to` once, as it was given. */
export type MailResult = { accepted: string[]; refused: Refusal[] }
export type Refusal = { address: string } & MailFailure

/** Never rejects: failures are results. */
export interface Mailer {
  send(mail: Mail): Promise<MailResult>
}

export type MailerOptions = {
  /** smtp(s)://user:password@host:port; user and password percent-encoded. */
  url: string
  /** The sender: an address, or a name and an address in angle brackets. */
  from: string
  /** What Davit calls itself in EHLO. Default: the domain of the sender. */
  ehloName?: string | undefined
  /** PEM of authorities to trust in addition to the known ones. */
  ca?: string | undefined
  /** For one whole mail. */
  deadlineMs?: number
}

const DEADLINE_MS = 30_000
const SUBMISSION_PORT = 587
const SECURE_PORT = 465

/** One connection per mail, since mails are rare. */
export function createMailer(options: MailerOptions): Mailer {
  const sender = senderOf(options.from)
  const server = {
    ...serverOf(options.url),
    ehloName: options.ehloName ?? sender.domain,
    ca: authorities(options.ca),
    deadlineMs: options.deadlineMs ?? DEADLINE_MS,
  }
  return {
    async send(mail) {
      const { groups, invalid } = sortRecipients(mail.to)
      const results = invalid.map((address) => ({ address, ...INVALID_ADDRESS }))
      const sent = groups.length === 0 ? [] : await sendGroups(new SmtpSession(server), sender, groups, mail)
      return sent.reduce(
        (all, { accepted, refused }) => ({
          accepted: [...all.accepted, ...accepted],
          refused: [...all.refused, ...refused],
        }),
        { accepted: [], refused: results },
      )
    },
  }
}

/** Recipients of one email: by the form of their address on the wire, the forms that were given. */
type Group = { isUtf8: boolean; recipients: Map<string, string[]> }

async function sendGroups(
  session: SmtpSession,
  sender: Sender,
  groups: readonly Group[],
  mail: Mail,
): Promise<MailResult[]> {
  try {
    await session.open()
    if (sender.isUtf8 && !session.supportsUtf8Addresses)
      return groups.map((group) => refuseAll(group, NO_UTF8_SENDER))
    const results: MailResult[] = []
    for (const group of groups) {
      if (results.length > 0) await session.reset().catch(() => undefined)
      const isRefused = group.isUtf8 && !session.supportsUtf8Addresses
      results.push(
        isRefused ? refuseAll(group, NO_UTF8_RECIPIENTS) : await sendOne(session, sender, group, mail),
      )
    }
    return results
  } catch (error) {
    const failure = mailFailureOf(error)
    return groups.map((group) => refuseAll(group, failure))
  } finally {
    session.close()
  }
}

async function sendOne(
  session: SmtpSession,
  sender: Sender,
  { recipients }: Group,
  { subject, text }: Mail,
): Promise<MailResult> {
  const to = [...recipients.keys()]
  const message = new MailComposer({
    from: sender.text,
    // Objects are not parsed again.
    to: to.map((address) => ({ name: '', address })),
    subject: oneLine(subject),
    text,
    // Suppresses automatic replies.
    headers: { 'auto-submitted': 'auto-generated' },
    disableFileAccess: true,
    disableUrlAccess: true,
  }).compile()
  const { from } = message.getEnvelope()
  const { accepted, refused } = await session.send(from || '', to, await message.build())
  const given = (address: string) => recipients.get(address) ?? []
  return {
    accepted: accepted.flatMap(given),
    refused: refused.flatMap(({ address, ...failure }) =>
      given(address).map((each) => ({ address: each, ...failure })),
    ),
  }
}

function refuseAll({ recipients }: Group, failure: MailFailure): MailResult {
  const refused = [...recipients.values()].flat().map((address) => ({ address, ...failure }))
  return { accepted: [], refused }
}

/**
 * An email with an address that needs SMTPUTF8 can be relayed only by servers that support it, so the others get one of their own, which
 * does not name that address.
 */
function sortRecipients(to: readonly string[]): { groups: Group[]; invalid: string[] } {
  const plain: Group = { isUtf8: false, recipients: new Map() }
  const international: Group = { isUtf8: true, recipients: new Map() }
  const invalid: string[] = []
  for (const address of new Set(to)) {
    const found = wireAddress(address)
    if (!found) {
      invalid.push(address)
      continue
    }
    const { recipients } = found.isUtf8 ? international : plain
    recipients.set(found.address, [...(recipients.get(found.address) ?? []), address])
  }
  return { groups: [plain, international].filter(({ recipients }) => recipients.size > 0), invalid }
}

/** One plain address, without display name, comment or list. */
const ADDRESS = /^([^\s\p{Cc}<>@,;:"()[\]\\]{1,64})@([^\s\p{Cc}<>@,;:"()\\]{1,255})$/u
const ASCII = /^\p{ASCII}*$/u

/** International domains have a form in ASCII, which every server takes; the part before the @ has none. */
function wireAddress(text: string): { address: string; isUtf8: boolean } | undefined {
  const [match, local = '', domain = ''] = ADDRESS.exec(text.normalize('NFC')) ?? []
  if (match === undefined) return undefined
  const ascii = asciiDomain(domain)
  if (ascii === undefined) return undefined
  if (ASCII.test(local)) return { address: `${local}@${ascii}`, isUtf8: false }
  return { address: `${local}@${domainToUnicode(ascii) || ascii}`, isUtf8: true }
}

/** Node takes a domain for the start of a URL: it would drop what follows a slash or a number sign. */
const INTERNATIONAL_DOMAIN = /^[a-z0-9.\P{ASCII}-]+$/iu

function asciiDomain(domain: string): string | undefined {
  if (ASCII.test(domain)) return domain
  return (INTERNATIONAL_DOMAIN.test(domain) && domainToASCII(domain)) || undefined
}

type Sender = { text: string; isUtf8: boolean; domain: string | undefined }

function senderOf(text: string): Sender {
  const address = /<([^<>]*)>$/.exec(text)?.[1] ?? text
  const at = address.lastIndexOf('@')
  const domain = address.slice(at + 1)
  return {
    text,
    isUtf8: !ASCII.test(address.slice(0, at)),
    domain: asciiDomain(domain),
  }
}

/** Alone, they would replace the known authorities. */
function authorities(ca: string | undefined): string[] | undefined {
  return ca === undefined ? undefined : [...getCACertificates('default'), ca]
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
    login: user === '' ? undefined : { user, pass: decodeURIComponent(url.password) },
  }
}
