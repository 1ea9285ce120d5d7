/** Owners of a disabled endpoint, and mail servers that do not accept everything: who gets an email, how often, and what the condition says. */

import { afterEach, describe, expect, test } from 'vitest'
import { FakeClock, settle } from '../../../test/support/fake-clock.ts'
import { MemoryStore } from '../../../test/support/memory-store.ts'
import { type ScriptedSmtp, type SmtpScript, startScriptedSmtp } from '../../../test/support/scripted-smtp.ts'
import { startSmtpServer } from '../../../test/support/smtp-server.ts'
import { createTestAuthority } from '../../../test/support/tls.ts'
import { API_VERSION } from '../../apis/meta.ts'
import { webhookEndpoint, webhookEndpoints } from '../../apis/webhook-endpoint.ts'
import { Organizations } from '../../kube/organizations.ts'
import { createMailer, type Mailer } from '../../lib/mail.ts'
import { EndpointDirectory, EndpointStatusWriter } from './directory.ts'
import { DisabledNotifier } from './notifier.ts'

const REF = { namespace: 'acme', name: 'billing' }
const HOUR = 3_600_000
const WEEK = 7 * 24 * HOUR
const FROM = 'Davit <davit@example.com>'
const [ANN, BOB, CAT] = ['ann@example.com', 'bob@example.com', 'cat@example.com']

const toClose: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const closable of toClose.splice(0)) await closable.close()
})

async function opened<T extends { close(): Promise<void> }>(starting: Promise<T>): Promise<T> {
  const started = await starting
  toClose.push(started)
  return started
}

/** An endpoint that was just disabled, in an organization with these owners. */
async function world(owners: string[], mailer: Mailer) {
  const clock = new FakeClock()
  const store = new MemoryStore(() => clock.now())
  await store.create(webhookEndpoints, {
    apiVersion: API_VERSION,
    kind: 'WebhookEndpoint',
    metadata: REF,
    spec: { url: 'https://receiver.example', eventTypes: ['*'] },
  })
  const disabledAt = new Date(clock.now()).toISOString()
  const status = {
    state: 'disabled',
    disabledReason: 'ConsecutiveFailures',
    disabledAt,
    consecutiveFailures: 5,
  }
  await store.patch(webhookEndpoints, REF, { status }, { subresource: 'status' })
  const read = async () => webhookEndpoint.parse(await store.get(webhookEndpoints, REF))
  const organizations = new Organizations()
  const setOwners = (ownerEmails: string[]) => organizations.apply({ name: 'acme', uid: 'o', ownerEmails })
  setOwners(owners)
  const results: string[] = []
  const logged: Record<string, unknown>[] = []
  const warn = (_event: string, _message: string, fields: Record<string, unknown> = {}) =>
    void logged.push(fields)
  let underWay = 0
  const counting: Mailer = {
    async send(mail) {
      underWay += 1
      try {
        return await mailer.send(mail)
      } finally {
        underWay -= 1
      }
    },
  }
  /** Mails take real time. */
  const quiet = async () => {
    do await settle()
    while (underWay > 0)
    await settle()
  }
  const process = async () => {
    const directory = new EndpointDirectory()
    directory.apply(await read())
    const log = { info: () => undefined, warn, error: warn }
    const notifier = new DisabledNotifier({
      mailer: counting,
      organizations,
      directory,
      statuses: new EndpointStatusWriter(store, directory, log),
      shards: { owns: () => true },
      heldMs: WEEK,
      clock,
      log,
      metrics: { mailed: (result) => void results.push(result) },
    })
    const look = async () => {
      const view = directory.get(REF.namespace, REF.name)
      if (view?.endpoint.status) notifier.notifyIfDisabled(view.endpoint.metadata, view.endpoint.status)
      await quiet()
    }
    const pass = async (ms: number) => {
      for (let passed = 0; passed < ms; passed += HOUR / 2) {
        await clock.elapse(HOUR / 2)
        await quiet()
      }
      // As every pass over the endpoint does.
      await look()
    }
    await look()
    return { notifier, look, pass, stop: () => notifier.stop() }
  }
  const condition = async () => {
    const { conditions = [] } = (await read()).status ?? {}
    const found = conditions.find(({ type }) => type === 'OwnersNotified')
    return found && { status: found.status, reason: found.reason, message: found.message }
  }
  return { clock, process, condition, setOwners, results, logged, read }
}

function mailerTo(smtp: { port: number }, login = '', ca?: string): Mailer {
  return createMailer({ url: `smtp://${login}localhost:${smtp.port}`, from: FROM, ca })
}

function on(start: string, reply: string): SmtpScript {
  return { reply: (command) => (command.toUpperCase().startsWith(start) ? reply : undefined) }
}

function count(smtp: ScriptedSmtp, start: string): number {
  return smtp.commands.filter((command) => command.startsWith(start)).length
}

describe('a rejection for good (5yz)', () => {
  test.each([
    { at: 'RCPT', reply: '550 5.1.1 no such user', retries: false },
    { at: 'RCPT', reply: '551 5.1.6 user has moved', retries: false },
    { at: 'RCPT', reply: '553 5.1.3 bad mailbox name', retries: false },
    { at: 'RCPT', reply: '556 5.1.10 accepts no mail', retries: false },
    { at: 'DATA', reply: '552 5.3.4 too big', retries: false },
    { at: '.', reply: '554 5.6.0 looks like spam', retries: false },
    { at: 'MAIL', reply: '550 5.1.8 no such sender', retries: true },
    { at: 'MAIL', reply: '530 5.7.0 log in first', retries: true },
    { at: 'RCPT', reply: '554 5.7.1 relay access denied', retries: true },
  ])(
    '$reply to $at ends the email at once, and the next process repeats it only where a setting may have changed',
    async ({ at, reply, retries }) => {
      const smtp = await opened(startScriptedSmtp(on(at, reply)))
      const { process, condition, results } = await world([ANN], mailerTo(smtp))
      const first = await process()
      await first.pass(WEEK + HOUR)
      expect(count(smtp, 'MAIL')).toBe(1)
      expect(results).toEqual(['refused'])
      const codes = reply.split(' ').slice(0, 2).join(' ')
      expect(await condition()).toMatchObject({
        status: 'False',
        reason: 'MailRefused',
        message: expect.stringMatching(new RegExp(`^No email was sent: the mail server .*\\(${codes}\\)\\.`)),
      })
      expect((await condition())?.message).toContain(
        retries ? 'Davit will try again only after its controller restarts.' : 'Davit will not try again.',
      )
    },
  )

  test.each([
    { at: 'RCPT', reply: '550 5.1.1 no such user', mails: 1 },
    { at: '.', reply: '554 5.6.0 looks like spam', mails: 1 },
    { at: 'MAIL', reply: '550 5.1.8 no such sender', mails: 2 },
  ])('$reply to $at: after a restart, $mails emails were tried in all', async ({ at, reply, mails }) => {
    const smtp = await opened(startScriptedSmtp(on(at, reply)))
    const { process, condition } = await world([ANN], mailerTo(smtp))
    await (await process()).stop()
    const before = await condition()
    const second = await process()
    await second.pass(24 * HOUR)
    expect(count(smtp, 'MAIL')).toBe(mails)
    expect(await condition()).toEqual(before)
  })

  test.each(['535 5.7.8 wrong password', '534 5.7.9 password too weak', '538 5.7.11 encrypt first'])(
    '%s to a login ends it as well',
    async (reply) => {
      const authority = createTestAuthority()
      const tls = authority.issue(['localhost'])
      const script = { tls, extensions: ['AUTH PLAIN'], ...on('AUTH', reply) }
      const smtp = await opened(startScriptedSmtp(script))
      const mailer = mailerTo(smtp, 'davit:canary@', authority.ca)
      const { process, condition, logged } = await world([ANN, BOB], mailer)
      await (await process()).pass(48 * HOUR)
      expect(count(smtp, 'AUTH')).toBe(1)
      expect(await condition()).toMatchObject({ status: 'False', reason: 'MailRefused' })
      expect(JSON.stringify([await condition(), logged])).not.toContain('canary')
    },
  )

  test('is not needed for an address that is none', async () => {
    const smtp = await opened(startScriptedSmtp())
    const { process, condition, results } = await world(['no address', 'a@b, c'], mailerTo(smtp))
    await (await process()).pass(24 * HOUR)
    expect(smtp.commands).toEqual([])
    expect(results).toEqual(['refused'])
    expect(await condition()).toEqual({
      status: 'False',
      reason: 'MailRefused',
      message: 'No email was sent: the address is not a valid email address. Davit will not try again.',
    })
  })
})

describe('a rejection for now (4yz)', () => {
  test.each([
    { at: 'EHLO', reply: '421 4.7.0 try again later' },
    { at: 'MAIL', reply: '451 4.3.0 later' },
    { at: 'RCPT', reply: '450 4.2.1 mailbox is busy' },
    { at: 'RCPT', reply: '451 4.7.1 greylisted' },
    { at: '.', reply: '452 4.3.1 disk is full' },
  ])('$reply to $at is tried again for a week', async ({ at, reply }) => {
    const smtp = await opened(startScriptedSmtp(on(at, reply)))
    const { process, condition } = await world([ANN], mailerTo(smtp))
    const one = await process()
    expect((await condition())?.message).toMatch(
      /^No email has been sent yet: .* Davit will keep trying for up to a week after the endpoint was disabled\.$/,
    )
    await one.pass(WEEK + 2 * HOUR)
    const tried = count(smtp, 'EHLO')
    expect(tried).toBeGreaterThan(150)
    await one.pass(24 * HOUR)
    expect(count(smtp, 'EHLO')).toBe(tried)
    expect((await condition())?.message).toMatch(/^No email was sent: .* Davit will not try again\.$/)
  })
})

describe('with several owners', () => {
  test('one who is greylisted gets the email later, and the others do not get it twice', async () => {
    const replies: Record<string, string> = { [BOB]: '451 4.7.1 greylisted' }
    const smtp = await opened(startSmtpServer({ replies }))
    const { process, condition, read } = await world([ANN, BOB, CAT], mailerTo(smtp))
    const one = await process()
    expect(await condition()).toEqual({
      status: 'True',
      reason: 'SomeOwnersMailed',
      message:
        'Davit notified 2 of 3 owners by email. Address 2 of davit.dev/owner-emails: the mail server rejected the recipient (451 4.7.1). Davit will keep trying for up to a week after the endpoint was disabled.',
    })
    expect(JSON.stringify((await read()).status)).not.toContain('@')
    await one.pass(3 * HOUR)
    delete replies[BOB]
    await one.pass(2 * HOUR)
    expect(smtp.mails.map(({ to }) => to)).toEqual([[ANN, CAT], [BOB]])
    expect(await condition()).toEqual({
      status: 'True',
      reason: 'Mailed',
      message: 'Davit notified 3 owners by email.',
    })
    expect((await read()).status?.ownerEmails).toBeUndefined()
  })

  test('the next process goes on with those who are left', async () => {
    const replies: Record<string, string> = { [BOB]: '450 4.2.0 not now', [CAT]: '550 5.1.1 no such user' }
    const smtp = await opened(startSmtpServer({ replies }))
    const { process, condition } = await world([ANN, BOB, CAT], mailerTo(smtp))
    await (await process()).stop()
    delete replies[BOB]
    delete replies[CAT]
    await process()
    expect(smtp.mails.map(({ to }) => to)).toEqual([[ANN], [BOB]])
    expect(await condition()).toEqual({
      status: 'True',
      reason: 'SomeOwnersMailed',
      message:
        'Davit notified 2 of 3 owners by email. Address 3 of davit.dev/owner-emails: the mail server rejected the recipient (550 5.1.1). Davit will not try again.',
    })
    await (await process()).pass(24 * HOUR)
    expect(smtp.mails).toHaveLength(2)
  })

  test('each cause is told once, with the addresses that it is about', async () => {
    const replies = { [ANN]: '550 5.1.1 gone', [BOB]: '550 5.1.1 never heard of', [CAT]: '450 4.2.0 later' }
    const smtp = await opened(startSmtpServer({ replies }))
    const { process, condition, logged } = await world([ANN, BOB, CAT, 'no address'], mailerTo(smtp))
    await process()
    expect(await condition()).toEqual({
      status: 'False',
      reason: 'MailRefused',
      message:
        'No email has been sent yet. Addresses 1 and 2 of davit.dev/owner-emails: the mail server rejected the recipient (550 5.1.1). Address 3 of davit.dev/owner-emails: the mail server rejected the recipient (450 4.2.0). Address 4 of davit.dev/owner-emails: the address is not a valid email address. Davit will keep trying for up to a week after the endpoint was disabled.',
    })
    // The cluster operator reads what the server said.
    expect(logged.map(({ reply }) => reply)).toContain('450 4.2.0 later')
  })

  test('an address outside ASCII does not keep the email from the others', async () => {
    const smtp = await opened(startSmtpServer({ onlyAscii: true }))
    const { process, condition } = await world(
      ['josé@example.com', ANN, 'owner@bücher.example'],
      mailerTo(smtp),
    )
    await (await process()).pass(24 * HOUR)
    expect(smtp.mails).toHaveLength(1)
    expect(await condition()).toMatchObject({
      status: 'True',
      reason: 'SomeOwnersMailed',
      message: expect.stringMatching(/^Davit notified 2 of 3 owners by email\. Address 1 of .*SMTPUTF8/),
    })
  })

  test.each([
    { rejection: '550 5.7.1 relaying denied', other: '451 4.7.1 greylisted' },
    { rejection: '554 5.7.1 relay access denied', other: '450 4.2.1 mailbox is busy' },
    { rejection: '530 5.7.0 log in first', other: '452 4.2.2 mailbox is full' },
    { rejection: '530 authentication required', other: '421 4.7.0 too many errors' },
    { rejection: '550 5.1.1 no such user', other: '552 5.2.2 mailbox is full' },
    { rejection: '550 5.7.509 not allowed', other: '552 too many recipients' },
  ])('$rejection is not tried again while another owner is at $other', async ({ rejection, other }) => {
    const reply = (command: string) => {
      if (command.startsWith('RCPT TO:<ann')) return rejection
      return command.startsWith('RCPT TO:<bob') ? other : undefined
    }
    const smtp = await opened(startScriptedSmtp({ reply }))
    const { process, condition } = await world([ANN, BOB], mailerTo(smtp))
    const first = await process()
    await first.pass(24 * HOUR)
    expect(count(smtp, `RCPT TO:<${ANN}`)).toBe(1)
    expect(count(smtp, `RCPT TO:<${BOB}`)).toBeGreaterThan(20)
    const message = (await condition())?.message ?? ''
    for (const text of [rejection, other]) expect(message).toContain(`(${/^[\d. ]*\d/.exec(text)?.[0]})`)
    expect(message).toMatch(/Davit will keep trying for up to a week after the endpoint was disabled\.$/)
  })

  test('an owner whose address is corrected while the email is sent gets it', async () => {
    const smtp = await opened(
      startScriptedSmtp({
        reply: (command) => {
          if (!command.startsWith('RCPT TO:<ann')) return undefined
          corrected.setOwners([BOB])
          return '550 5.1.1 no such user'
        },
      }),
    )
    const corrected = await world([ANN], mailerTo(smtp))
    const first = await corrected.process()
    await first.look()
    expect([count(smtp, `RCPT TO:<${ANN}`), count(smtp, `RCPT TO:<${BOB}`)]).toEqual([1, 1])
    expect((await corrected.condition())?.status).toBe('True')
  })

  test('an owner who gets the email late does not bring back those whom the server rejects', async () => {
    const replies: Record<string, string> = {
      [ANN]: '550 5.7.1 relaying denied',
      [BOB]: '451 4.7.1 greylisted',
      [CAT]: '530 5.7.0 log in first',
    }
    const smtp = await opened(startSmtpServer({ replies }))
    const { process, condition, setOwners, results } = await world([ANN, BOB, CAT], mailerTo(smtp))
    const one = await process()
    await one.pass(2 * HOUR)
    delete replies[BOB]
    await one.pass(48 * HOUR)
    expect(smtp.mails.map(({ to }) => to)).toEqual([[BOB]])
    expect(await condition()).toEqual({
      status: 'True',
      reason: 'SomeOwnersMailed',
      message: `Davit notified 1 of 3 owners by email. Address 1 of davit.dev/owner-emails: the mail server rejected the recipient (550 5.7.1). Address 3 of davit.dev/owner-emails: the mail server requires a login (530 5.7.0). Ask your cluster operator to add a user name and a password to DAVIT_SMTP_URL. Davit will try again only after its controller restarts.`,
    })
    const tries = results.length
    setOwners([ANN, CAT])
    await one.pass(HOUR)
    // Other owners are another notification.
    expect(results).toHaveLength(tries + 1)
  })

  test('an owner who corrects a rejected address gets the email', async () => {
    const smtp = await opened(startSmtpServer({ replies: { [BOB]: '550 5.1.1 no such user' } }))
    const { process, condition, setOwners } = await world([ANN, BOB], mailerTo(smtp))
    const one = await process()
    await one.pass(HOUR)
    setOwners([ANN, CAT])
    await one.look()
    expect(smtp.mails.map(({ to }) => to)).toEqual([[ANN], [CAT]])
    expect((await condition())?.reason).toBe('SomeOwnersMailed')
    await one.pass(24 * HOUR)
    expect(smtp.mails).toHaveLength(2)
  })

  test('one who leaves the organization is not waited for', async () => {
    const smtp = await opened(startSmtpServer({ replies: { [BOB]: '450 4.2.0 not now' } }))
    const { process, condition, setOwners } = await world([ANN, BOB], mailerTo(smtp))
    const one = await process()
    setOwners([ANN])
    await one.pass(HOUR)
    expect(await condition()).toMatchObject({ reason: 'Mailed', message: 'Davit notified 1 owner by email.' })
    expect(smtp.mails).toHaveLength(1)
  })
})
