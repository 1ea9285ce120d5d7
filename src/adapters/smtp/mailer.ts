/** Sends mail through the operator's mail server. */
import { createTransport } from 'nodemailer'
import type { Mailer } from '../../ports/mailer.ts'

export type MailerOptions = {
  /** smtp(s)://user:password@host:port */
  url: string
  from: string
}

const TIMEOUT_MS = 15_000

/** One connection for each mail: mails are rare. */
export function createMailer({ url, from }: MailerOptions): Mailer {
  const transport = createTransport({
    url,
    connectionTimeout: TIMEOUT_MS,
    greetingTimeout: TIMEOUT_MS,
    socketTimeout: TIMEOUT_MS,
    dnsTimeout: TIMEOUT_MS,
    disableFileAccess: true,
    disableUrlAccess: true,
  })
  return {
    async send({ to, subject, text }) {
      await transport.sendMail({ from, to, subject, text })
    },
  }
}
