/** Owners are notified by e-mail of automatic disabling (interface §3.1). */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { namespaces } from '../../src/apis/core-kinds.ts'
import type { Condition } from '../../src/apis/meta.ts'
import { createMailer, type Mail, type Mailer } from '../../src/lib/mail.ts'
import { conditionOf } from '../support/conditions.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { disableByFailures, failingEndpoint, SHORT_WAITS } from '../support/exhaust.ts'
import { passBy } from '../support/pass-by.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { type ReceivedMail, startSmtpServer, type TestSmtpServer } from '../support/smtp-server.ts'
import { until } from '../support/until.ts'

const ENABLE = 'davit.dev/enable-requested-at'
const OWNERS = ['ann@example.com', 'bob@example.com', 'gone@example.com']
const HOUR_MS = 3_600_000

let davit: TestDavit
let receiver: Receiver
let smtp: TestSmtpServer
/** Of the server that answers, and of a port where none does. */
let up: Mailer
let down: Mailer
let mailer: Mailer
/** Subjects of all mails that Davit tried to send. */
const tried: string[] = []

beforeAll(async () => {
  receiver = await startReceiver()
  smtp = await startSmtpServer({ refuse: ['gone@example.com'] })
  const closed = await startSmtpServer()
  await closed.close()
  const from = 'Davit <davit@example.com>'
  up = createMailer({ url: `smtp://127.0.0.1:${smtp.port}`, from })
  down = createMailer({ url: `smtp://127.0.0.1:${closed.port}`, from })
  mailer = up
  const send = async (mail: Mail) => {
    tried.push(mail.subject)
    return await mailer.send(mail)
  }
  const env = { ...SHORT_WAITS, DAVIT_SHUTDOWN_TIMEOUT: '0s' }
  davit = await startDavit('owner-mail', {
    env,
    mailer: { send },
    ownerEmails: OWNERS.slice(0, 2).join(', '),
  })
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
  await smtp?.close()
})

async function disable(name: string): Promise<{ failingSince: string; disabledAt: string }> {
  const endpoint = await failingEndpoint(davit, receiver, name)
  const { failingSince = '', disabledAt = '' } = await disableByFailures(davit, endpoint)
  return { failingSince, disabledAt }
}

function mailsAbout(name: string): ReceivedMail[] {
  return smtp.mails.filter(({ text }) => text.includes(`Subject: Webhook endpoint ${name} in `))
}

function triesFor(name: string): number {
  return tried.filter((subject) => subject.startsWith(`Webhook endpoint ${name} in `)).length
}

async function notified(
  name: string,
  status: Condition['status'],
  on = davit,
): Promise<Condition | undefined> {
  const told = (object: Parameters<typeof conditionOf>[0]) => conditionOf(object, 'OwnersNotified')
  return told(await on.endpointWhen(name, (object) => told(object)?.status === status))
}

/** Lets hours pass until so many tries were made. */
async function tries(name: string, count: number): Promise<void> {
  await until(
    async () => {
      if (triesFor(name) >= count) return true
      davit.clock.jump(HOUR_MS)
      return undefined
    },
    () => `${triesFor(name)} tries were made`,
  )
}

/** Owners' addresses in the namespace's annotation, once the controller knows them. */
async function setOwners(owners: readonly string[]): Promise<void> {
  const annotations = { 'davit.dev/owner-emails': owners.length > 0 ? owners.join(',') : null }
  await davit.api.patch(namespaces, { name: davit.organization }, { metadata: { annotations } })
  const known = () => davit.controller.webhooks.organizations.get(davit.organization)?.ownerEmails
  await until(
    async () => (known()?.join() === owners.join() ? true : undefined),
    () => `the controller knows ${known()}`,
  )
}

test('one mail tells all owners what happened and how to enable it again, once', async () => {
  const { failingSince, disabledAt } = await disable('billing')
  expect(await notified('billing', 'True')).toMatchObject({
    reason: 'Mailed',
    message: expect.stringContaining('2 owners'),
  })
  const [mail, ...others] = mailsAbout('billing')
  expect(others).toEqual([])
  expect(mail).toMatchObject({ from: 'davit@example.com', to: OWNERS.slice(0, 2) })
  // Long lines are broken with a = at their end.
  const text = mail?.text.replaceAll('=\r\n', '').replaceAll('=3D', '=') ?? ''
  for (const words of [
    'whe_billing',
    davit.organization,
    failingSince,
    disabledAt,
    '5 consecutive deliveries exhausted their retries',
    ENABLE,
  ])
    expect(text).toContain(words)
  await davit.annotate('billing', { unrelated: 'x' })
  await davit.restart()
  await passBy(davit, receiver)
  davit.clock.jump(24 * HOUR_MS)
  await passBy(davit, receiver)
  expect(triesFor('billing')).toBe(1)
})

test('an owner whose address is refused does not keep the mail from the others, and is not counted', async () => {
  await setOwners(OWNERS)
  await disable('partly')
  expect((await notified('partly', 'True'))?.message).toContain('2 of 3 owners')
  expect(mailsAbout('partly').map(({ to }) => to)).toEqual([OWNERS.slice(0, 2)])
  await setOwners(OWNERS.slice(0, 2))
})

test('without owners a condition says that nobody was told', async () => {
  await setOwners([])
  await disable('nobody')
  expect(await notified('nobody', 'False')).toMatchObject({
    reason: 'NoOwners',
    message: expect.stringContaining('davit.dev/owner-emails'),
  })
  await setOwners(OWNERS.slice(0, 2))
  expect(triesFor('nobody')).toBe(0)
})

test('without a mail server a condition says that nobody was told', async () => {
  const silent = await startDavit('owner-mail-none', { env: SHORT_WAITS, ownerEmails: 'ann@example.com' })
  try {
    await disableByFailures(silent, await failingEndpoint(silent, receiver, 'silent'))
    expect(await notified('silent', 'False', silent)).toMatchObject({
      reason: 'NoMailServer',
      message: expect.stringContaining('DAVIT_SMTP_URL'),
    })
  } finally {
    await silent.stop()
  }
})

test('while the mail server is down a condition says so, the disabling waits for nothing, and owners are told once when it is back', async () => {
  mailer = down
  await disable('outage')
  expect(await notified('outage', 'False')).toMatchObject({
    reason: 'MailRefused',
    message: expect.stringContaining('the mail server cannot be reached'),
  })
  // Half a day, in which it goes on trying.
  await tries('outage', 10)
  mailer = up
  await tries('outage', triesFor('outage') + 1)
  expect(await notified('outage', 'True')).toMatchObject({ reason: 'Mailed' })
  const made = triesFor('outage')
  davit.clock.jump(48 * HOUR_MS)
  await passBy(davit, receiver)
  expect(triesFor('outage')).toBe(made)
  expect(mailsAbout('outage')).toHaveLength(1)
})

test('a process that starts while owners are not told goes on telling them', async () => {
  mailer = down
  await disable('restarted')
  await notified('restarted', 'False')
  await davit.controller.stop()
  const before = triesFor('restarted')
  davit.clock.jump(HOUR_MS)
  expect(triesFor('restarted')).toBe(before)
  mailer = up
  await davit.startController()
  await notified('restarted', 'True')
  expect(triesFor('restarted')).toBe(before + 1)
  expect(mailsAbout('restarted')).toHaveLength(1)
})

test('a mail that was under way when the process ended is sent by the next one', async () => {
  mailer = { send: () => new Promise(() => undefined) }
  await disable('hanging')
  await until(
    async () => (triesFor('hanging') === 1 ? true : undefined),
    () => 'no mail was tried',
  )
  mailer = up
  await davit.restart()
  await notified('hanging', 'True')
  expect(mailsAbout('hanging')).toHaveLength(1)
})

test('owners who enable it before they could be told are not told any more', async () => {
  mailer = down
  await disable('mended')
  await notified('mended', 'False')
  await davit.annotate('mended', { [ENABLE]: davit.time() })
  const enabled = await davit.endpointWhen('mended', ({ status }) => status?.state === 'enabled')
  expect(conditionOf(enabled, 'OwnersNotified')).toBeUndefined()
  // The API server delivers it before the controller has its answer.
  const known = () =>
    davit.controller.webhooks.directory.get(davit.organization, 'mended')?.endpoint.status?.state
  await until(
    async () => (known() === 'enabled' ? true : undefined),
    () => `to the controller it is ${known()}`,
  )
  mailer = up
  const made = triesFor('mended')
  davit.clock.jump(24 * HOUR_MS)
  await passBy(davit, receiver)
  expect(triesFor('mended')).toBe(made)
})
