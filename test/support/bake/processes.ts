/** What other processes on the machine can see of a running bake: the processes of its group in /proc. */
import { readdirSync, readFileSync, statSync } from 'node:fs'

export type SeenProcess = {
  pid: number
  name: string
  /** Separated by null characters. */
  arguments: string
  environment: string
  /** The limit of its core dump size. */
  core: string
}

export function processesOf(group: number): SeenProcess[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => seen(Number(pid), group) ?? [])
}

/** Reads an open file of a process. @returns its text, its mode, and its link count */
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
    // The name is in brackets and may contain anything.
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
    // The process has ended meanwhile.
    return undefined
  }
}
