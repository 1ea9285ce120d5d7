import { expect, test } from 'vitest'
import { disabledMail } from './notifier.ts'

const DISABLED = {
  namespace: 'acme',
  name: 'billing',
  consecutiveFailures: 7,
  failingSince: '2026-01-30T12:00:00.000Z',
  disabledAt: '2026-01-31T12:30:00.000Z',
}

test('owners read what happened, since when, why to look where, and how to enable again', () => {
  const { subject, text } = disabledMail(DISABLED)
  expect(subject).toBe('Webhook endpoint billing in acme was disabled')
  for (const part of [
    'whe_billing',
    'organization acme',
    'Davit disabled the endpoint because 7 consecutive deliveries exhausted their retries, the first at 2026-01-30T12:00:00.000Z.',
    '2026-01-31T12:30:00.000Z',
    '-n acme get webhookdeliveries --field-selector spec.endpoint=billing,status.state=exhausted',
    '-n acme annotate webhookendpoint billing --overwrite davit.dev/enable-requested-at=',
  ]) {
    expect(text).toContain(part)
  }
})

test('what is not known is left out', () => {
  const { subject, text } = disabledMail({ namespace: 'acme', name: 'billing' })
  expect(`${subject} ${text}`).not.toMatch(/undefined|null|NaN|Invalid/)
})

test('the subject is one line', () => {
  expect(disabledMail(DISABLED).subject).not.toMatch(/[\r\n]/)
})
