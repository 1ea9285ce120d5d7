import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** An audit log of the API server's, one JSON line a request. */
export type AuditLog = {
  logPath: string
  /** What is kept of a request; bodies where it is not Metadata. Ignored beside `policyPath`. */
  level?: 'Metadata' | 'Request' | 'RequestResponse'
  /** A policy of the caller's own. */
  policyPath?: string
}

/** Where bodies would put secrets and bearer tokens into the log in clear. */
const NEVER_BODIES = [
  { group: '', resources: ['secrets', 'serviceaccounts/token'] },
  { group: 'authentication.k8s.io', resources: ['tokenreviews'] },
]

/** The API server's flags for it; writes the policy into `workDir` where the caller has none. */
export async function auditFlags(audit: AuditLog, workDir: string): Promise<Record<string, string>> {
  const policyPath = audit.policyPath ?? join(workDir, 'audit-policy.json')
  if (audit.policyPath === undefined) {
    await writeFile(policyPath, JSON.stringify(policyOf(audit.level ?? 'Metadata')))
  }
  return { 'audit-log-path': audit.logPath, 'audit-policy-file': policyPath }
}

function policyOf(level: string): object {
  return {
    apiVersion: 'audit.k8s.io/v1',
    kind: 'Policy',
    omitStages: ['RequestReceived'],
    rules: [{ level: 'Metadata', resources: NEVER_BODIES }, { level }],
  }
}
