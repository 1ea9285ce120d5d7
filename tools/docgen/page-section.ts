import { NoPlaceError } from './generated-file.ts'

export type PageSection = {
  /** The section is between `<!-- <name>: npm run generate -->` and `<!-- <end> -->`. */
  name: string
  end: string
  content: string
}

/** Replaces the generated section of a handwritten page. @throws NoPlaceError if the page has no place for it */
export function putSection(path: string, page: string, { name, end: last, content }: PageSection): string {
  const start = `<!-- ${name}: npm run generate -->\n`
  const end = `<!-- ${last} -->`
  const from = page.indexOf(start)
  const to = page.indexOf(end, from)
  if (from < 0 || to < 0)
    throw new NoPlaceError(`${path} must contain the section "${start.trim()}" ... "${end}"`)
  return `${page.slice(0, from + start.length)}\n${content}\n${page.slice(to)}`
}
