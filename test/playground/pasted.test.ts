/** What the playground prints to be pasted works when it is pasted, from the first line to the last. */
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { startPlaygroundProcess, temporaryFolder } from '../support/playground-process.ts'
import { ShellSession } from '../support/shell-session.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const TEST_LIMIT_MS = 120_000

it('the lines that it prints to be pasted work, in their order', { timeout: TEST_LIMIT_MS }, async () => {
  await using folder = await temporaryFolder()
  const playground = startPlaygroundProcess(folder.path)
  try {
    const { kubectl } = await playground.facts()
    await expect.poll(() => playground.output(), { timeout: 10_000 }).toContain('Ctrl-C ends everything.')
    const lines = [...playground.output().matchAll(/^ {2}(\S.*)$/gm)].map(([, line = '']) => line)
    const commands = lines.filter((line) => !line.startsWith('#'))
    expect(commands.filter((line) => line.startsWith('kubectl '))).toHaveLength(5)
    expect(commands.filter((line) => line.startsWith('curl '))).toHaveLength(5)
    await using shell = await ShellSession.start({ cwd: ROOT, path: dirname(kubectl) })
    for (const command of commands) {
      const { code, statuses, stderr } = await shell.paste(command)
      expect({ command, code, stderr }).toEqual({ command, code: 0, stderr: '' })
      if (command.startsWith('curl ')) expect([200, 201, 202], command).toContain(statuses[0])
    }
  } finally {
    playground.child.kill('SIGTERM')
    await playground.ended
  }
})
