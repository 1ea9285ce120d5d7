import { inspect } from 'node:util'
import { afterEach, describe, expect, test } from 'vitest'
import { startRawReceiver } from '../../test/support/receiver-raw.ts'
import { startScriptedSmtp } from '../../test/support/scripted-smtp.ts'
import { startSmtpServer, type TestSmtpOptions } from '../../test/support/smtp-server.ts'
import { createTestAuthority } from '../../test/support/tls.ts'
import { createMailer, type MailerOptions } from './mail.ts'

const authority = createTestAuthority()
const certificate = authority.issue(['localhost'])
const MAIL = { to: ['owner@example.com'], subject: 'Disabled', text: 'Your endpoint was disabled.' }

const toClose: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const closable of toClose.splice(0)) await closable.close()
})

async function server(options: TestSmtpOptions = {}) {
  const started = await startSmtpServer(options)
  toClose.push(started)
  return started
}

function mailer(url: string, options: Partial<MailerOptions> = {}) {
  return createMailer({ url, from: 'Davit <davit@example.com>', ca: authority.ca, ...options })
}

test('one mail reaches several owners, each once', async () => {
  const smtp = await server()
  const to = ['a@example.com', 'b@example.com', 'a@example.com']
  await mailer(`smtp://localhost:${smtp.port}`).send({ ...MAIL, to, subject: 'Größe', text: 'a\n.\nb' })
  expect(smtp.mails).toHaveLength(1)
  const [mail] = smtp.mails
  expect(mail).toMatchObject({ from: 'davit@example.com', to: ['a@example.com', 'b@example.com'] })
  expect(mail?.text).toMatch(/^From: Davit <davit@example.com>\r$/m)
  expect(mail?.text).toMatch(/^To: a@example.com, b@example.com\r$/m)
  expect(mail?.text).toMatch(/^Subject: =\?UTF-8\?/m)
  expect(mail?.text).toMatch(/^Auto-Submitted: auto-generated\r$/im)
  expect(mail?.text).toContain('\r\n\r\na\r\n.\r\nb')
})

/** The reasons that owners read, by address. */
async function refusals(sending: ReturnType<ReturnType<typeof createMailer>['send']>) {
  return (await sending).refused.map(({ address, reason, isPermanent }) => ({ address, reason, isPermanent }))
}

/** The reason for the one owner of `MAIL`. */
async function reasonOf(sending: ReturnType<ReturnType<typeof createMailer>['send']>) {
  const { accepted, refused } = await sending
  expect(accepted).toEqual([])
  expect(refused.map(({ address }) => address)).toEqual(MAIL.to)
  return refused[0]?.reason
}

test('a refused recipient does not keep the mail from the others, and each is told apart', async () => {
  const replies = { 'gone@example.com': '550 5.1.1 unknown', 'later@example.com': '451 4.7.1 greylisted' }
  const smtp = await server({ replies })
  const to = ['gone@example.com', 'here@example.com', 'no address', 'later@example.com']
  const sending = mailer(`smtp://localhost:${smtp.port}`).send({ ...MAIL, to })
  expect((await sending).accepted).toEqual(['here@example.com'])
  expect(await refusals(sending)).toEqual([
    { address: 'no address', reason: 'the address is not a valid email address', isPermanent: true },
    {
      address: 'gone@example.com',
      reason: 'the mail server rejected the recipient (550 5.1.1)',
      isPermanent: true,
    },
    {
      address: 'later@example.com',
      reason: 'the mail server rejected the recipient (451 4.7.1)',
      isPermanent: false,
    },
  ])
  expect(smtp.mails.map(({ to }) => to)).toEqual([['here@example.com']])
})

test('what the server says of a recipient is for the cluster operator, and its codes are for owners', async () => {
  const smtp = await server({
    replies: {
      'owner@example.com': '550 5.7.1 <owner@example.com> blocked by mx7.corp.internal, see A1B2C3',
    },
  })
  const { refused } = await mailer(`smtp://localhost:${smtp.port}`).send(MAIL)
  expect(refused[0]?.reason).toBe('the mail server rejected the recipient (550 5.7.1)')
  expect(refused[0]?.reply).toContain('mx7.corp.internal')
})

test.each([
  { name: 'STARTTLS', scheme: 'smtp', implicitTls: false },
  { name: 'TLS from the start', scheme: 'smtps', implicitTls: true },
])('with $name the login and the mail are encrypted', async ({ scheme, implicitTls }) => {
  const smtp = await server({
    tls: certificate,
    implicitTls,
    login: { user: 'davit@x', password: 'p@ss/word' },
  })
  await mailer(`${scheme}://davit%40x:p%40ss%2Fword@localhost:${smtp.port}`).send(MAIL)
  expect(smtp.mails).toMatchObject([{ secure: true, user: 'davit@x' }])
})

test('a wrong password fails, and is nowhere in the result', async () => {
  const smtp = await server({ tls: certificate, login: { user: 'davit', password: 'right' } })
  const result = await mailer(`smtp://davit:canary-wrong@localhost:${smtp.port}`).send(MAIL)
  expect(result.refused).toMatchObject([
    {
      reason:
        'the mail server rejected the login (535). Ask your cluster operator to check the user name and password in DAVIT_SMTP_URL',
    },
  ])
  expect(inspect(result, { depth: 9, showHidden: true })).not.toContain('canary')
  expect(smtp.mails).toEqual([])
})

test('a password is never sent in the clear, even where the server would take it', async () => {
  const smtp = await server({ login: { user: 'davit', password: 'right' } })
  const sending = mailer(`smtp://davit:right@localhost:${smtp.port}`).send(MAIL)
  expect(await reasonOf(sending)).toContain('a TLS connection to the mail server could not be established')
  expect(smtp.mails).toEqual([])
})

test('a server that is down reads so, without its address', async () => {
  const smtp = await startSmtpServer()
  await smtp.close()
  const sending = mailer(`smtp://127.0.0.1:${smtp.port}`).send(MAIL)
  expect(await reasonOf(sending)).toBe('the mail server cannot be reached')
})

test('a server that greets nobody ends at the deadline', async () => {
  const silent = await startRawReceiver(() => undefined)
  toClose.push(silent)
  const sending = mailer(`smtp://127.0.0.1:${silent.port}`, { deadlineMs: 100 }).send(MAIL)
  expect(await reasonOf(sending)).toBe('the mail server does not respond')
  await silent.drained()
})

test('a server that speaks without end ends at the deadline', async () => {
  const talking = await startRawReceiver((socket) => {
    // Never idle, never done.
    socket.write('220 hello\r\n')
    const timer = setInterval(() => socket.write('250-still here\r\n'), 5)
    socket.on('close', () => clearInterval(timer))
  })
  toClose.push(talking)
  const sending = mailer(`smtp://127.0.0.1:${talking.port}`, { deadlineMs: 200 }).send(MAIL)
  expect(await reasonOf(sending)).toBe('the mail server does not respond')
  await talking.drained()
})

test.each([
  'a@example.com\r\nBcc: evil@example.com',
  'a@example.com, evil@example.com',
  'Evil <evil@example.com>',
  'a@example.com> NOTIFY=SUCCESS',
  'not an address',
  '@example.com',
  '',
])('the address %j is left out', async (address) => {
  const smtp = await server()
  await mailer(`smtp://localhost:${smtp.port}`).send({ ...MAIL, to: [address, 'good@example.com'] })
  expect(smtp.mails.map(({ to }) => to)).toEqual([['good@example.com']])
  expect(smtp.mails[0]?.text).not.toContain('evil')
  expect(await refusals(mailer(`smtp://localhost:${smtp.port}`).send({ ...MAIL, to: [address] }))).toEqual([
    { address, reason: 'the address is not a valid email address', isPermanent: true },
  ])
})

test('a subject cannot become another header', async () => {
  const smtp = await server()
  const subject = 'Hello\r\nBcc: evil@example.com\r\n\r\nbody\u2028x'
  await mailer(`smtp://localhost:${smtp.port}`).send({ ...MAIL, subject })
  const [mail] = smtp.mails
  expect(mail?.to).toEqual(MAIL.to)
  const header = mail?.text.slice(0, mail.text.indexOf('\r\n\r\n')) ?? ''
  expect(header).not.toMatch(/^bcc:/im)
  expect(mail?.text).toContain('\r\n\r\nYour endpoint was disabled.')
})

test.each([
  { name: 'the domain of the sender', from: 'Davit <davit@example.com>', want: 'example.com' },
  { name: 'the domain of a plain sender', from: 'ops@mail.example.org', want: 'mail.example.org' },
  { name: 'an international domain in ASCII', from: 'davit@bücher.example', want: 'xn--bcher-kva.example' },
  {
    name: 'the name that is set',
    from: 'davit@example.com',
    ehloName: 'relay.example.net',
    want: 'relay.example.net',
  },
  {
    name: 'an address literal that is set',
    from: 'davit@example.com',
    ehloName: '[192.0.2.7]',
    want: '[192.0.2.7]',
  },
])('Davit calls itself $name', async ({ from, ehloName, want }) => {
  const smtp = await server()
  await mailer(`smtp://localhost:${smtp.port}`, { from, ehloName }).send(MAIL)
  expect(smtp.mails.map((mail) => mail.ehloName)).toEqual([want])
})

test.each([
  { what: 'an address literal of the loopback', rejects: /^(EHLO|HELO) \[127\./ },
  { what: 'every address literal', rejects: /^(EHLO|HELO) \[/ },
  { what: 'localhost', rejects: /^(EHLO|HELO) localhost/ },
  { what: 'a name without a dot', rejects: /^(EHLO|HELO) [^.]*$/ },
])('a relay that drops clients that call themselves $what takes the email', async ({ rejects }) => {
  const reply = (command: string) => (rejects.test(command) ? '421 4.7.0 try again later' : undefined)
  const smtp = await startScriptedSmtp({ reply })
  toClose.push(smtp)
  const result = await mailer(`smtp://localhost:${smtp.port}`).send(MAIL)
  expect(result).toEqual({ accepted: MAIL.to, refused: [] })
})

describe('an address outside ASCII', () => {
  const UTF8 = ['josé@example.com', '用户@例え.jp', 'δοκιμή@παράδειγμα.δοκιμή', 'jose\u0301@example.org']
  const DOMAINS = [
    ['owner@bücher.example', 'owner@xn--bcher-kva.example'],
    ['owner@例え.jp', 'owner@xn--r8jz45g.jp'],
    ['owner@παράδειγμα.δοκιμή', 'owner@xn--hxajbheg2az3al.xn--jxalpdlp'],
    ['owner@BÜCHER.example', 'owner@xn--bcher-kva.example'],
  ] as const

  test.each(UTF8)(
    '%s is reached by a server that supports SMTPUTF8, in an email of its own',
    async (address) => {
      const smtp = await server()
      const result = await mailer(`smtp://localhost:${smtp.port}`).send({
        ...MAIL,
        to: [address, 'ann@example.com'],
      })
      expect(result).toEqual({ accepted: ['ann@example.com', address], refused: [] })
      expect(smtp.mails).toMatchObject([
        { to: ['ann@example.com'], utf8: false },
        { to: [address.normalize('NFC')], utf8: true },
      ])
      expect(smtp.mails[0]?.text).not.toContain(address)
    },
  )

  test.each(UTF8)(
    '%s is refused for good where the server lacks SMTPUTF8, and the others get their email',
    async (address) => {
      const smtp = await server({ onlyAscii: true })
      const sending = mailer(`smtp://localhost:${smtp.port}`).send({
        ...MAIL,
        to: [address, 'ann@example.com'],
      })
      expect((await sending).accepted).toEqual(['ann@example.com'])
      expect(await refusals(sending)).toEqual([
        { address, reason: expect.stringContaining('SMTPUTF8'), isPermanent: true },
      ])
      expect(smtp.mails.map(({ to }) => to)).toEqual([['ann@example.com']])
    },
  )

  test.each(DOMAINS)('%s is reached by any server, as %s', async (address, want) => {
    const smtp = await startScriptedSmtp()
    toClose.push(smtp)
    const result = await mailer(`smtp://localhost:${smtp.port}`).send({ ...MAIL, to: [address] })
    expect(result).toEqual({ accepted: [address], refused: [] })
    expect(smtp.commands).toContain(`RCPT TO:<${want}>`)
    expect(smtp.commands.join()).not.toContain('SMTPUTF8')
    expect(smtp.messages[0]).toContain(`\nTo: ${want}\n`)
  })

  test('two forms of one domain are one recipient', async () => {
    const smtp = await startScriptedSmtp()
    toClose.push(smtp)
    const to = ['owner@bücher.example', 'owner@xn--bcher-kva.example']
    expect(await mailer(`smtp://localhost:${smtp.port}`).send({ ...MAIL, to })).toEqual({
      accepted: to,
      refused: [],
    })
    expect(smtp.commands.filter((command) => command.startsWith('RCPT'))).toEqual([
      'RCPT TO:<owner@xn--bcher-kva.example>',
    ])
  })

  test.each([
    'owner@xn--ü',
    'owner@bücher.example#.evil.example',
    'owner@bücher.example＃.evil.example',
    'josé@ü/x.example',
    'josé@ü%2ex.example',
    'josé@xn--ü',
  ])('%s, whose domain does not exist in ASCII, is not an address', async (address) => {
    const smtp = await server()
    expect(await refusals(mailer(`smtp://localhost:${smtp.port}`).send({ ...MAIL, to: [address] }))).toEqual([
      { address, reason: 'the address is not a valid email address', isPermanent: true },
    ])
  })

  test.each(['davít@example.com', 'Davit <通知@example.com>'])(
    'of the sender (%s) is the concern of the cluster operator where the server lacks SMTPUTF8',
    async (from) => {
      const smtp = await server({ onlyAscii: true })
      const { refused } = await mailer(`smtp://localhost:${smtp.port}`, { from }).send(MAIL)
      expect(refused).toMatchObject([
        { reason: expect.stringContaining('DAVIT_SMTP_FROM'), isPermanent: true, scope: 'server' },
      ])
      expect(smtp.mails).toEqual([])
    },
  )
})
