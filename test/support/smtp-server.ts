/** A real SMTP server for tests that records mails and rejects recipients as scripted. */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'
import type { Certificate } from './tls.ts'

export type ReceivedMail = {
  from: string
  to: string[]
  /** Header and body in their original form. */
  text: string
  secure: boolean
  user: string | undefined
  /** The name that the client gave in EHLO. */
  ehloName: string
  /** With SMTPUTF8: for addresses with other characters than ASCII. */
  utf8: boolean
}

export type TestSmtpOptions = {
  /** Offers STARTTLS, or TLS from the start with `implicitTls`. */
  tls?: Certificate
  implicitTls?: boolean
  /** The required login. */
  login?: { user: string; password: string }
  /** Rejected recipients. */
  refuse?: string[]
  /** Replies to recipients that it accepts only later or never, such as `451 4.7.1 greylisted`; looked up at each mail. */
  replies?: Record<string, string>
  /** Does not support SMTPUTF8. */
  onlyAscii?: boolean
}

export type TestSmtpServer = { port: number; mails: readonly ReceivedMail[]; close(): Promise<void> }

export async function startSmtpServer(options: TestSmtpOptions = {}): Promise<TestSmtpServer> {
  const mails: ReceivedMail[] = []
  const server = new SMTPServer({
    ...(options.tls ?? {}),
    secure: options.implicitTls ?? false,
    disabledCommands: [...(options.tls ? [] : ['STARTTLS']), ...(options.login ? [] : ['AUTH'])],
    authOptional: options.login === undefined,
    closeTimeout: 100,
    hideSMTPUTF8: options.onlyAscii ?? false,
    onAuth: (auth, _session, answer) => {
      const right = auth.username === options.login?.user && auth.password === options.login?.password
      if (right) answer(null, { user: auth.username ?? '' })
      else answer(new Error(`no such login: ${auth.username} ${auth.password}`))
    },
    onRcptTo: ({ address }, _session, answer) => {
      const reply = options.replies?.[address]
      if (reply !== undefined) return answer(rejection(reply))
      answer(options.refuse?.includes(address) ? new Error(`no such mailbox ${address}`) : null)
    },
    onData: (stream, session, answer) => {
      const chunks: Buffer[] = []
      stream.on('data', (chunk: Buffer) => chunks.push(chunk))
      stream.on('end', () => {
        const { mailFrom, rcptTo } = session.envelope
        mails.push({
          from: mailFrom ? mailFrom.address : '',
          to: rcptTo.map(({ address }) => address),
          text: Buffer.concat(chunks).toString('utf8'),
          secure: session.secure,
          user: session.user === undefined ? undefined : String(session.user),
          ehloName: String(session.hostNameAppearsAs),
          utf8: session.envelope.smtpUtf8 === true,
        })
        answer(null)
      })
    },
  } satisfies SMTPServerOptions)
  server.on('error', () => undefined)
  const listener = server.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  return {
    port: (listener.address() as AddressInfo).port,
    mails,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  }
}

function rejection(reply: string): Error {
  const [code = '', ...words] = reply.split(' ')
  return Object.assign(new Error(words.join(' ')), { responseCode: Number(code) })
}
