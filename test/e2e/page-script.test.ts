import { describe, expect, it } from 'vitest'
import { commandsOf, runCommands } from './page-script.ts'

const PAGE = [
  '# A page',
  '```sh',
  'first=1',
  '```',
  'Words.',
  '```',
  'output',
  '```',
  '## Remove it',
  '```sh',
  'echo "$first and 2"',
  '```',
  '',
].join('\n')

const OPTIONS = { cwd: '/', env: { PATH: process.env.PATH }, limitMs: 10_000 }

describe('a page as a script', () => {
  it('is what its blocks of sh say, in order', () => {
    expect(commandsOf(PAGE)).toEqual(['first=1\n', 'echo "$first and 2"\n'])
  })

  it('may be one part of it', () => {
    expect(commandsOf(PAGE, 'Remove it')).toEqual(['echo "$first and 2"\n'])
  })

  it('has the headings below that part, and takes no comment of a block for one', () => {
    const page = [
      '## Use it',
      '```sh',
      '# first',
      'one',
      '```',
      '### More',
      '```sh',
      'two',
      '```',
      '## End',
      '```sh',
      'no',
      '```',
      '',
    ]
    expect(commandsOf(page.join('\n'), 'Use it')).toEqual(['# first\none\n', 'two\n'])
    expect(() => commandsOf(page.join('\n'), 'first')).toThrow('no heading')
  })

  it('is none without a command', () => {
    expect(() => commandsOf('# A page\n')).toThrow('no block of commands')
    expect(() => commandsOf(PAGE, 'Use it')).toThrow('no heading')
  })

  it('has one shell for all blocks', async () => {
    expect(await runCommands(commandsOf(PAGE), OPTIONS)).toEqual({ code: 0, output: '1 and 2\n' })
  })

  it('ends at the first command that fails', async () => {
    const { code, output } = await runCommands(['echo one\n', 'false\n', 'echo two\n'], OPTIONS)
    expect([code, output]).toEqual([1, 'one\n'])
  })

  it('leaves nothing running', async () => {
    const { output } = await runCommands(['sleep 600 & echo $!\n'], OPTIONS)
    await expect.poll(() => isRunning(Number(output)), { timeout: 20_000 }).toBe(false)
  })
})

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
