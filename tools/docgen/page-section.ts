import { NoPlaceError } from './generated-file.ts'

export type PageSection = {
  /** The section stands between `<!-- <name>: npm run generate -->` and `<!-- <end> -->`. */
  name: string
  end: string
  content: string
}

/** A page that is written by hand, with a section that is not. @throws NoPlaceError where there is no place for it */
export function putSection(path: string, page: string, { name, end: last, content }: PageSection): string {
  const start = `<!-- ${name}: npm run generate -->\n`
  const end = `<!-- ${last} -->`
  const from = page.indexOf(start)
  const to = page.indexOf(end, from)
  if (from < 0 || to < 0) throw new NoPlaceError(`${path} lacks the section "${start.trim()}" ... "${end}"`)
  return `${page.slice(0, from + start.length)}\n${content}\n${page.slice(to)}`
}
