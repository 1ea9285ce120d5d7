/** The commands of a page, as if pasted one after another: its blocks of `sh`, run by one bash with -e. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'

/** `shell` marks alternatives of a page: equally valid, and left out if only `sh` is asked for. */
const BLOCKS = { sh: /^```sh\n(.*?)^```$/gms, shell: /^```shell\n(.*?)^```$/gms }
const MAX_OUTPUT = 1_000_000

/** @param words keeps to the blocks below the heading that has these words */
export function commandsOf(page: string, words?: string, language: keyof typeof BLOCKS = 'sh'): string[] {
  const part = words === undefined ? page : sectionOf(page, words)
  const blocks = [...part.matchAll(BLOCKS[language])].map(([, text = '']) => text)
  if (blocks.length === 0) throw new Error(`there is no block of commands${words ? ` below ${words}` : ''}`)
  return blocks
}

/** With the headings below it. A comment of a block of commands is no heading. */
function sectionOf(page: string, words: string): string {
  const lines = page.split('\n')
  const levels = levelsOf(lines)
  const start = lines.findIndex((line, index) => levels[index] !== undefined && line.includes(words))
  if (start < 0) throw new Error(`there is no heading with ${words}`)
  const level = levels[start] ?? 0
  const end = levels.findIndex((each, index) => index > start && each !== undefined && each <= level)
  return lines.slice(start, end < 0 ? undefined : end).join('\n')
}

/** Of each line how deep a heading it is; undefined where it is none. */
function levelsOf(lines: readonly string[]): (number | undefined)[] {
  let inside = false
  return lines.map((line) => {
    if (line.startsWith('```')) inside = !inside
    return inside ? undefined : /^(#+) /.exec(line)?.[1]?.length
  })
}

export type Ran = { code: number | null; output: string }

export type RunOptions = {
  cwd: string
  env: NodeJS.ProcessEnv
  limitMs: number
  say?: (line: string) => void
}

/** What it has left running in the background is ended. */
export async function runCommands(blocks: readonly string[], options: RunOptions): Promise<Ran> {
  const { cwd, env, limitMs, say = () => {} } = options
  const child = spawn('bash', ['-e', '-c', blocks.join('\n')], {
    cwd,
    env,
    // A group of its own, with all that it starts.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-MAX_OUTPUT)
      for (const line of text.split('\n').filter(Boolean)) say(line)
    })
  const end = () => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
    } catch {
      // Nothing of it is left.
    }
  }
  const limit = setTimeout(end, limitMs)
  const [code] = (await once(child, 'exit')) as [number | null]
  clearTimeout(limit)
  end()
  return { code, output }
}
