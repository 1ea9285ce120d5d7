import { expect, test } from 'vitest'
import { disabledMail } from './notifier.ts'

const DAY = 24 * 60 * 60 * 1000
const DISABLED = {
  namespace: 'acme',
  name: 'billing',
  consecutiveFailures: 7,
  failingSince: '2026-01-30T12:00:00.000Z',
  disabledAt: '2026-01-31T12:30:00.000Z',
}

test('owners read what happened, since when, why to look where, and how to enable again', () => {
  const { subject, text } = disabledMail(DISABLED, 7 * DAY)
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

test.each([
  { held: 7 * DAY, want: '2026-02-07T12:30:00.000Z' },
  { held: DAY, want: '2026-02-01T12:30:00.000Z' },
  { held: DAY / 24, want: '2026-01-31T13:30:00.000Z' },
  { held: 30 * DAY, want: '2026-03-02T12:30:00.000Z' },
])('owners read until when deliveries are held: $want', ({ held, want }) => {
  expect(disabledMail(DISABLED, held).text).toContain(`If you enable the endpoint by ${want}, Davit resumes`)
})

test('what is not known is left out', () => {
  const { subject, text } = disabledMail({ namespace: 'acme', name: 'billing' }, 7 * DAY)
  expect(`${subject} ${text}`).not.toMatch(/undefined|null|NaN|Invalid/)
})

test('the subject is one line', () => {
  expect(disabledMail(DISABLED, 7 * DAY).subject).not.toMatch(/[\r\n]/)
})
