/** What owners read about a mail server that accepts nothing, with servers that behave so. */
import { afterEach, describe, expect, test } from 'vitest'
import { startRawReceiver } from '../../test/support/receiver-raw.ts'
import { type SmtpScript, startScriptedSmtp } from '../../test/support/scripted-smtp.ts'
import { startSmtpServer } from '../../test/support/smtp-server.ts'
import { createTestAuthority, selfSignedCertificate } from '../../test/support/tls.ts'
import { createMailer } from './mail.ts'
import { mailFailureOf } from './mail-failures.ts'

const authority = createTestAuthority()
const MAIL = { to: ['owner@example.com'], subject: 'Disabled', text: 'Your endpoint was disabled.' }
const FROM = 'Davit <davit@example.com>'

const toClose: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const closable of toClose.splice(0)) await closable.close()
})

async function opened<T extends { close(): Promise<void> }>(starting: Promise<T>): Promise<T> {
  const started = await starting
  toClose.push(started)
  return started
}

type Options = { scheme?: 'smtp' | 'smtps'; login?: string; ca?: string }

/** The result for the only recipient. */
async function refusalBy(server: { port: number }, { scheme = 'smtp', login = '', ca }: Options = {}) {
  const url = `${scheme}://${login}localhost:${server.port}`
  const { accepted, refused } = await createMailer({ url, from: FROM, ca }).send(MAIL)
  expect(accepted).toEqual([])
  expect(refused.map(({ address }) => address)).toEqual(MAIL.to)
  const [refusal] = refused
  if (!refusal) throw new Error('accepted')
  return refusal
}

/** Replies to every command that starts like this. */
function to(start: string, reply: string): SmtpScript {
  return { reply: (command) => (command.toUpperCase().startsWith(start) ? reply : undefined) }
}

describe('a server that answers', () => {
  const cases: {
    given: string
    script: SmtpScript
    want: string
    scope?: 'server' | 'email'
    /** Default: by the first digit of the reply. */
    isPermanent?: boolean
    login?: string
  }[] = [
    {
      given: '421 as its greeting',
      script: { greeting: '421 4.3.2 mx7.corp.internal is busy' },
      want: 'the mail server closed the connection (421 4.3.2)',
    },
    {
      given: '554 as its greeting',
      script: { greeting: '554 5.7.1 your address 10.0.0.7 is listed' },
      want: 'the mail server rejected the connection (554 5.7.1)',
    },
    {
      given: '421 to EHLO',
      script: to('EHLO', '421 4.7.0 try again later, closing connection'),
      want: 'the mail server closed the connection after EHLO (421 4.7.0). Ask your cluster operator to check DAVIT_SMTP_EHLO_NAME',
    },
    {
      given: '504 to EHLO and HELO',
      script: { reply: (command) => (/^(EHLO|HELO)/.test(command) ? '504 5.5.2 need a name' : undefined) },
      want: 'the mail server rejected the name in EHLO (504 5.5.2). Ask your cluster operator to set DAVIT_SMTP_EHLO_NAME',
    },
    {
      given: '454 to STARTTLS',
      script: { extensions: ['STARTTLS'], ...to('STARTTLS', '454 4.7.0 not now') },
      want: 'a TLS connection to the mail server could not be established: it rejected STARTTLS (454 4.7.0). Ask your cluster operator to check the port in DAVIT_SMTP_URL',
    },
    {
      given: '550 to the sender',
      script: to('MAIL', '550 5.7.60 not permitted to send as davit@example.com'),
      want: 'the mail server rejected the sender (550 5.7.60). Ask your cluster operator to check DAVIT_SMTP_FROM',
    },
    {
      given: '530 to the sender',
      script: to('MAIL', '530 5.7.0 authentication required'),
      want: 'the mail server requires a login (530 5.7.0). Ask your cluster operator to add a user name and a password to DAVIT_SMTP_URL',
    },
    {
      given: '554 to the recipient for lack of a login',
      script: to('RCPT', '554 5.7.1 relay access denied'),
      want: 'the mail server rejected the recipient (554 5.7.1)',
    },
    {
      given: '550 to the recipient',
      script: to('RCPT', '550-5.1.1 no such user\r\n550 5.1.1 at mx7.corp.internal'),
      want: 'the mail server rejected the recipient (550 5.1.1)',
      scope: 'email',
    },
    {
      given: '553 to the recipient, without an enhanced code',
      script: to('RCPT', '553 sorry'),
      want: 'the mail server rejected the recipient (553)',
      scope: 'email',
    },
    {
      given: '452 to the recipient',
      script: to('RCPT', '452 4.2.2 mailbox full'),
      want: 'the mail server rejected the recipient (452 4.2.2)',
      scope: 'email',
    },
    {
      given: '421 to the recipient',
      script: to('RCPT', '421 4.7.0 too many errors'),
      want: 'the mail server rejected the recipient (421 4.7.0)',
      scope: 'email',
    },
    {
      given: '552 to the recipient, for a full mailbox',
      script: to('RCPT', '552 5.2.2 mailbox full'),
      want: 'the mail server rejected the recipient (552 5.2.2)',
      scope: 'email',
      isPermanent: false,
    },
    {
      given: '552 to the recipient, without an enhanced code',
      script: to('RCPT', '552 too many recipients'),
      want: 'the mail server rejected the recipient (552)',
      scope: 'email',
      isPermanent: false,
    },
    {
      given: '552 to the recipient, with the code of too many recipients',
      script: to('RCPT', '552-5.5.3 too many\r\n552 5.5.3 recipients'),
      want: 'the mail server rejected the recipient (552 5.5.3)',
      scope: 'email',
      isPermanent: false,
    },
    {
      given: '552 to the sender',
      script: to('MAIL', '552 5.3.4 too big'),
      want: 'the mail server rejected the sender (552 5.3.4). Ask your cluster operator to check DAVIT_SMTP_FROM',
    },
    {
      given: '552 to DATA',
      script: to('DATA', '552 5.3.4 too big'),
      want: 'the mail server rejected the email (552 5.3.4)',
      scope: 'email',
    },
    {
      given: '554 to the message',
      script: to('.', '554 5.6.0 looks like spam to mx7.corp.internal'),
      want: 'the mail server rejected the email (554 5.6.0)',
      scope: 'email',
    },
    {
      given: '451 to the message',
      script: to('.', '451 4.3.0 queue file write error'),
      want: 'the mail server rejected the email (451 4.3.0)',
      scope: 'email',
    },
  ]

  test.each(cases)('$given was reached', async ({ script, want, scope = 'server', isPermanent }) => {
    const smtp = await opened(startScriptedSmtp(script))
    const refusal = await refusalBy(smtp)
    const lasts = isPermanent ?? /\(5/.test(want)
    expect(refusal).toMatchObject({ reason: want, scope, isPermanent: lasts })
    // Its own words stay with the cluster operator.
    expect(refusal.reason).not.toMatch(/corp\.internal|10\.0\.0\.7|sorry|busy/)
    expect(refusal.reply).toMatch(/^[45]\d\d/)
  })

  test.each([
    { given: '535 5.7.8 no such login davit canary', isPermanent: true, codes: '535 5.7.8' },
    { given: '534 5.7.9 use an application password canary', isPermanent: true, codes: '534 5.7.9' },
    { given: '454 4.7.0 the directory is down canary', isPermanent: false, codes: '454 4.7.0' },
  ])(
    '$given to a login was reached, and what it repeats of the login is dropped',
    async ({ given, codes, isPermanent }) => {
      const tls = authority.issue(['localhost'])
      const script = { tls, extensions: ['AUTH PLAIN'], ...to('AUTH', given) }
      const refusal = await refusalBy(await opened(startScriptedSmtp(script)), {
        login: 'davit:canary@',
        ca: authority.ca,
      })
      expect(refusal).toEqual({
        address: 'owner@example.com',
        reason: `the mail server rejected the login (${codes}). Ask your cluster operator to check the user name and password in DAVIT_SMTP_URL`,
        isPermanent,
        scope: 'server',
      })
    },
  )

  test.each([
    { given: 'an HTTP response', greeting: 'HTTP/1.1 400 Bad Request' },
    { given: 'an SSH banner', greeting: 'SSH-2.0-OpenSSH_9.9' },
    { given: 'a POP3 greeting', greeting: '+OK POP3 ready' },
  ])('with $given does not speak SMTP', async ({ greeting }) => {
    const refusal = await refusalBy(await opened(startScriptedSmtp({ greeting })))
    expect(refusal).toMatchObject({ reason: 'the mail server does not speak SMTP', isPermanent: false })
  })
})

describe('a server that hangs up', () => {
  test('before TLS begins was reached', async () => {
    const server = await opened(startRawReceiver((socket) => void socket.end()))
    expect(await refusalBy(server, { scheme: 'smtps' })).toMatchObject({
      reason: 'the mail server closed the connection',
      isPermanent: false,
    })
  })

  test.each([
    { when: 'before its greeting', script: undefined },
    { when: 'after EHLO', script: to('EHLO', '') },
    { when: 'after the sender', script: to('MAIL', '') },
    { when: 'after the message', script: to('.', '') },
  ])('$when was reached', async ({ script }) => {
    const server = script
      ? await opened(startScriptedSmtp(script))
      : await opened(startRawReceiver((socket) => void socket.end()))
    expect(await refusalBy(server)).toMatchObject({
      reason: 'the mail server closed the connection',
      isPermanent: false,
      scope: 'server',
    })
  })
})

test.each([
  ['ECONNREFUSED', 'the mail server cannot be reached'],
  ['EHOSTUNREACH', 'the mail server cannot be reached'],
  ['ENETUNREACH', 'the mail server cannot be reached'],
  ['ETIMEDOUT', 'the mail server does not respond'],
  ['ECONNRESET', 'the mail server closed the connection'],
  ['EPIPE', 'the mail server closed the connection'],
  ['EMFILE', 'the connection to the mail server failed'],
  ['CERT_NOT_YET_VALID', 'the certificate of the mail server is not valid yet'],
  ['CERT_REVOKED', 'the certificate of the mail server has been revoked'],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', expect.stringContaining('extraCa')],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', expect.stringContaining('extraCa')],
  ['UNABLE_TO_DECRYPT_CERT_SIGNATURE', expect.stringContaining('extraCa')],
  ['SELF_SIGNED_CERT_IN_CHAIN', expect.stringContaining('extraCa')],
  ['INVALID_CA', expect.stringContaining('extraCa')],
  ['ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION', expect.stringContaining('TLS 1.2')],
  ['ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE', 'a TLS connection to the mail server could not be established'],
  ['EPROTO', 'a TLS connection to the mail server could not be established'],
])('an error of the socket with the code %s is told as what it is', (originalCode, reason) => {
  const error = Object.assign(new Error('try running Node.js with --use-system-ca'), {
    code: 'ESOCKET',
    originalCode,
  })
  expect(mailFailureOf(error)).toEqual({ reason, isPermanent: false, scope: 'server' })
})

describe('a server that cannot be reached', () => {
  test('is one without a listener', async () => {
    const smtp = await startSmtpServer()
    await smtp.close()
    for (const scheme of ['smtp', 'smtps'] as const)
      expect((await refusalBy(smtp, { scheme })).reason).toBe('the mail server cannot be reached')
  })

  test('or one whose name does not exist', async () => {
    const mailer = createMailer({ url: 'smtp://no-such-host.invalid:25', from: FROM })
    expect((await mailer.send(MAIL)).refused).toMatchObject([
      { reason: 'the host name of the mail server does not resolve', isPermanent: false },
    ])
  })
})

describe('a certificate', () => {
  const untrusted =
    'the certificate of the mail server is not trusted. Ask your cluster operator to add its certificate authority to extraCa (DAVIT_EXTRA_CA_FILE)'
  const cases = [
    { name: 'of nobody', tls: selfSignedCertificate(['localhost']), want: untrusted },
    { name: 'of an unknown authority', tls: createTestAuthority().issue(['localhost']), want: untrusted },
    {
      name: 'for another name',
      tls: authority.issue(['mx7.corp.internal']),
      want: 'the certificate of the mail server is for another host name. Ask your cluster operator to set DAVIT_SMTP_URL to a host name that the certificate covers',
    },
    {
      name: 'that has expired',
      tls: authority.issue(['localhost'], -1),
      want: 'the certificate of the mail server has expired',
    },
  ]

  test.each(cases)(
    '$name is told with what fixes it, with STARTTLS and with TLS from the start',
    async ({ tls, want }) => {
      for (const implicitTls of [false, true]) {
        const smtp = await opened(startSmtpServer({ tls, implicitTls }))
        const scheme = implicitTls ? 'smtps' : 'smtp'
        const refusal = await refusalBy(smtp, { scheme, ca: authority.ca })
        expect(refusal).toMatchObject({ reason: want, isPermanent: false, scope: 'server' })
        expect(refusal.reason).not.toMatch(/node|cannot be reached|corp/i)
      }
    },
  )

  test('is not looked at where smtps:// meets a port without TLS', async () => {
    const { reason } = await refusalBy(await opened(startSmtpServer()), { scheme: 'smtps' })
    expect(reason).toBe(
      'a TLS connection to the mail server could not be established: it does not respond with TLS. Ask your cluster operator to check that the port in DAVIT_SMTP_URL matches its scheme (smtp:// or smtps://)',
    )
  })
})

test('a recipient that was rejected stays so when the message of the others has to be sent again', async () => {
  const reply = (command: string) => {
    if (command.startsWith('RCPT TO:<gone')) return '550 5.1.1 gone'
    return command === '.' ? '451 4.3.0 later' : undefined
  }
  const smtp = await opened(startScriptedSmtp({ reply }))
  const mailer = createMailer({ url: `smtp://localhost:${smtp.port}`, from: FROM })
  const { refused } = await mailer.send({ ...MAIL, to: ['ann@example.com', 'gone@example.com'] })
  expect(Object.fromEntries(refused.map(({ address, isPermanent }) => [address, isPermanent]))).toEqual({
    'ann@example.com': false,
    'gone@example.com': true,
  })
})
