/**
 * `npm run test:rights`: runs the tests that cover everything that Davit does, with only the shipped rights, on API servers with
 * an audit log. Then no call of Davit may have been rejected for lack of a right, and every right must have been used.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { type AccountName, RIGHTS_OF } from '../../tools/docgen/rights/rights.ts'
import { type AuditEntry, readAuditLine } from '../support/audit-trail.ts'
import { commitOfTree } from '../support/commit.ts'
import { covers, nameOfRight, type Right, shippedRights } from '../support/shipped-rights.ts'
import { FILES } from './files.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))

/** Where what was found is kept for test/reports/rights.md. */
const RESULTS = new URL('./results/rights.json', import.meta.url)

type Role = AccountName
type Use = { role: Role; file: string; right: Right; count: number }

async function main(): Promise<number> {
  const folder = await mkdtemp(join(tmpdir(), 'davit-rights-'))
  try {
    const failed = await runTests(folder)
    const uses = await rightsOfAll()
    const refused = new Map<string, number>()
    for (const name of await readdir(folder)) {
      await eachDeed(join(folder, name), (role, deed, operator) =>
        count(uses, refused, { role, deed, operator }),
      )
    }
    await keep(uses, refused)
    return report(uses, refused) + failed
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function runTests(folder: string): Promise<number> {
  const projects = ['--project', 'cluster', '--project', 'full-cluster']
  const args = ['node_modules/vitest/vitest.mjs', 'run', ...projects, '--reporter=dot', ...FILES]
  const env = { ...process.env, DAVIT_AUDIT_FOLDER: folder, DAVIT_TESTS: 'full' }
  const child = spawn(process.execPath, args, { cwd: ROOT, env, stdio: 'inherit' })
  const [code] = await once(child, 'close')
  return code === 0 ? 0 : 1
}

async function rightsOfAll(): Promise<Use[]> {
  const uses: Use[] = []
  for (const [role, files] of Object.entries(RIGHTS_OF) as [Role, readonly string[]][])
    for (const file of files)
      for (const right of await shippedRights(file)) uses.push({ role, file, right, count: 0 })
  return uses
}

/** What one of Davit's ServiceAccounts did; tests have one in each operator's namespace of theirs. */
async function eachDeed(
  path: string,
  use: (role: Role, deed: AuditEntry, operator: string) => void,
): Promise<void> {
  for await (const line of createInterface({ input: createReadStream(path) })) {
    const user =
      /"username":"system:serviceaccount:([a-z0-9-]+):(davit-controller|davit-api)[a-z0-9-]*"/.exec(line)
    // What tests try with the token of a role has no name of a program.
    if (user?.[1] && user[2] && line.includes('"userAgent":"davit"'))
      use(user[2] as Role, readAuditLine(line), user[1])
  }
}

function count(
  uses: readonly Use[],
  refused: Map<string, number>,
  { role, deed, operator }: { role: Role; deed: AuditEntry; operator: string },
): void {
  // A rejection by a quota or a policy was allowed by a role.
  if (deed.code === 401 || (deed.code === 403 && deed.allowedBy === '')) {
    const what = `${role}: ${nameOfRight({ ...deed, namespace: '' })}`
    refused.set(what, (refused.get(what) ?? 0) + 1)
    return
  }
  for (const use of uses) {
    const { namespace, ...right } = use.right
    const there = namespace === undefined ? right : { ...right, namespace: operator }
    if (use.role === role && covers(there, deed, operator)) use.count += 1
  }
}

async function keep(uses: readonly Use[], refused: ReadonlyMap<string, number>): Promise<void> {
  const calls: Record<string, Record<string, number>> = {}
  for (const { file, right, count: times } of uses)
    calls[file] = { ...calls[file], [nameOfRight(right)]: times }
  const stamp = { measuredAt: new Date().toISOString(), commit: commitOfTree() }
  const found = { ...stamp, refused: refused.size, calls }
  await writeFile(RESULTS, `${JSON.stringify(found, undefined, 2)}\n`)
}

function report(uses: readonly Use[], refused: ReadonlyMap<string, number>): number {
  console.log(`\n| right | of | calls |\n|---|---|---|`)
  for (const { right, file, count: calls } of uses)
    console.log(`| ${nameOfRight(right)} | ${file} | ${calls} |`)
  const unused = uses.filter(({ count: calls }) => calls === 0)
  console.log(`\n${uses.length} rights, ${unused.length} of no use; ${refused.size} kinds of calls refused`)
  for (const { right, file } of unused) console.log(`of no use: ${nameOfRight(right)} (${file})`)
  for (const [what, times] of refused) console.log(`refused: ${what}, ${times} times`)
  return unused.length === 0 && refused.size === 0 ? 0 : 1
}

process.exitCode = (await main()) === 0 ? 0 : 1
