import { inspect } from 'node:util'
import { afterEach, expect, test } from 'vitest'
import { startRawReceiver } from '../../test/support/receiver-raw.ts'
import { startSmtpServer, type TestSmtpOptions } from '../../test/support/smtp-server.ts'
import { createTestAuthority, selfSignedCertificate } from '../../test/support/tls.ts'
import { createMailer, MailError, type MailerOptions } from './mail.ts'

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

test('a refused recipient does not keep the mail from the others', async () => {
  const smtp = await server({ refuse: ['gone@example.com'] })
  const to = ['gone@example.com', 'here@example.com', 'no address']
  expect(await mailer(`smtp://localhost:${smtp.port}`).send({ ...MAIL, to })).toBe(1)
  expect(smtp.mails.map(({ to }) => to)).toEqual([['here@example.com']])
})

test('a mail that nobody may have fails with the words of the server', async () => {
  const smtp = await server({ refuse: MAIL.to })
  const sending = mailer(`smtp://localhost:${smtp.port}`).send(MAIL)
  await expect(sending).rejects.toThrow(MailError)
  await expect(sending).rejects.toThrow('no such mailbox owner@example.com')
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

test('a wrong password fails, and is in neither the words nor anywhere in the error', async () => {
  const smtp = await server({ tls: certificate, login: { user: 'davit', password: 'right' } })
  const error = await mailer(`smtp://davit:canary-wrong@localhost:${smtp.port}`)
    .send(MAIL)
    .catch((caught: unknown) => caught)
  expect(error).toMatchObject({ message: 'the mail server rejected the login' })
  expect(inspect(error, { depth: 9, showHidden: true })).not.toContain('canary')
  expect(smtp.mails).toEqual([])
})

test('a password is never sent in the clear, even where the server would take it', async () => {
  const smtp = await server({ login: { user: 'davit', password: 'right' } })
  const sending = mailer(`smtp://davit:right@localhost:${smtp.port}`).send(MAIL)
  await expect(sending).rejects.toThrow('failed to establish a TLS connection to the mail server')
  expect(smtp.mails).toEqual([])
})

test('a server that is too busy speaks for itself', async () => {
  const busy = await startRawReceiver((socket) => socket.end('421 come back later\r\n'))
  toClose.push(busy)
  await expect(mailer(`smtp://127.0.0.1:${busy.port}`).send(MAIL)).rejects.toThrow('come back later')
})

test('a certificate that nobody known signed fails', async () => {
  const smtp = await server({ tls: selfSignedCertificate(['localhost']), implicitTls: true })
  await expect(mailer(`smtps://localhost:${smtp.port}`).send(MAIL)).rejects.toThrow(MailError)
  expect(smtp.mails).toEqual([])
})

test('a server that is down reads so, without its address', async () => {
  const smtp = await startSmtpServer()
  await smtp.close()
  const sending = mailer(`smtp://127.0.0.1:${smtp.port}`).send(MAIL)
  await expect(sending).rejects.toThrow(/^the mail server cannot be reached$/)
})

test('a server that greets nobody ends at the deadline', async () => {
  const silent = await startRawReceiver(() => undefined)
  toClose.push(silent)
  const sending = mailer(`smtp://127.0.0.1:${silent.port}`, { deadlineMs: 100 }).send(MAIL)
  await expect(sending).rejects.toThrow('the mail server does not respond')
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
  await expect(sending).rejects.toThrow('the mail server does not respond')
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
  await expect(mailer(`smtp://localhost:${smtp.port}`).send({ ...MAIL, to: [address] })).rejects.toThrow(
    'no valid',
  )
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
