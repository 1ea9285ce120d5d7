/** Formats a run as a table. */
import type { CredentialFindings } from './credential-chaos.ts'

export function credentialReportOf(findings: CredentialFindings): string {
  const { lives, acts, wrong } = findings
  const rows: [string, string | number][] = [
    ['kills', lives.length],
    ['  of them while it began', lives.filter(({ killed }) => killed === 'start').length],
    ['API server outages', lives.filter(({ trouble }) => trouble?.kind === 'outage').length],
    ['etcd compactions', lives.filter(({ trouble }) => trouble?.kind === 'compaction').length],
    ['calls that met a trouble of AWS', findings.troubles],
    ['lasted', `${Math.round(findings.lastedMs / 1000)} s`],
    ['organizations', findings.organizations],
    ...[...acts].sort().map(([act, count]): [string, number] => [`  ${act}`, count]),
    ['calls of AWS', findings.calls],
    ['at rest after', `${(findings.restedAfterMs / 1000).toFixed(1)} s`],
    ['credentials at the end', findings.credentials],
    ['  asked for again, since the account was changed', findings.lost],
    ['parameters at the end', findings.parameters],
    ['orphans at the end', findings.failedDeletions],
  ]
  const width = Math.max(...rows.map(([name]) => name.length))
  const table = rows.map(([name, value]) => `${name.padEnd(width)}  ${value}`)
  const verdict = wrong.length === 0 ? 'All promises held.' : `BROKEN:\n  ${wrong.join('\n  ')}`
  return [...table, '', verdict].join('\n')
}
