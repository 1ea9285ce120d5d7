/** What others on the machine could see of a running bake: the processes of its group, as /proc shows them. */
import { readdirSync, readFileSync, statSync } from 'node:fs'

export type SeenProcess = {
  pid: number
  name: string
  /** With zeros between the parts. */
  arguments: string
  environment: string
  /** The largest core that it may write. */
  core: string
}

export function processesOf(group: number): SeenProcess[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => seen(Number(pid), group) ?? [])
}

/** A file that a process has open. @returns its text, its mode, and how many names it has */
export function openFile(pid: number, descriptor: number) {
  const path = `/proc/${pid}/fd/${descriptor}`
  const { mode, nlink } = statSync(path)
  return { text: readFileSync(path, 'utf8'), mode: (mode & 0o777).toString(8), names: nlink }
}

function coreLimit(limits: string): string {
  return /^Max core file size +(\S+ +\S+)/m.exec(limits)?.[1]?.replace(/ +/, ' ') ?? ''
}

function seen(pid: number, group: number): SeenProcess | undefined {
  try {
    const read = (name: string) => readFileSync(`/proc/${pid}/${name}`, 'utf8')
    // The name is in brackets and may hold anything.
    const [, name = '', rest = ''] = /^\d+ \((.*)\) (.*)$/s.exec(read('stat')) ?? []
    if (Number(rest.split(' ')[2]) !== group) return undefined
    return {
      pid,
      name,
      arguments: read('cmdline'),
      environment: read('environ'),
      core: coreLimit(read('limits')),
    }
  } catch {
    // It has ended meanwhile.
    return undefined
  }
}
