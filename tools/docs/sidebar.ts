/** The navigation of the documentation site, from the list of pages in `docs/README.md`. */
import { sitePathOf } from './stage.ts'

export type SidebarItem = {
  text: string
  link?: string
  /** Folded unless the reader opens it. Absent for a page. */
  collapsed?: boolean
  items?: SidebarItem[]
}

const HEADING = /^\*\*(.+)\*\*$|^## (.+)$/
const LINK = /\[([^\]]+)\]\(([^)#\s]+\.md)(?:#[^)]*)?\)/g

/**
 * @param index text of `docs/README.md`: headings, and under each a list with links to pages
 * @param listOf text of another list of pages, such as `docs/contributing/decisions/README.md`, whose pages become items of it
 */
export function sidebarOf(
  index: string,
  listOf: (path: string) => string | undefined = () => undefined,
): SidebarItem[] {
  const groups: Required<Pick<SidebarItem, 'text' | 'items'>>[] = []
  const seen = new Set<string>()
  for (const line of index.split('\n')) {
    const heading = HEADING.exec(line)
    if (heading) groups.push({ text: heading[1] ?? heading[2] ?? '', items: [] })
    for (const { text, path } of linksOf(line, 'docs')) {
      if (seen.has(path)) continue
      seen.add(path)
      groups.at(-1)?.items.push(itemOf(text, path, listOf(path)))
    }
  }
  return groups.filter(({ items }) => items.length > 0).map((group) => ({ ...group, collapsed: false }))
}

function itemOf(text: string, path: string, list: string | undefined): SidebarItem {
  const item = { text, link: addressOf(path) }
  const folder = path.replace(/\/[^/]*$/, '')
  const pages =
    list === undefined ? [] : linksOf(list, folder).filter((page) => page.path.startsWith(`${folder}/`))
  if (pages.length === 0) return item
  return { ...item, collapsed: true, items: pages.map((page) => itemOf(page.text, page.path, undefined)) }
}

/** Links to pages, as paths from the root of the repository. */
function linksOf(text: string, folder: string): { text: string; path: string }[] {
  return [...text.matchAll(LINK)].flatMap(([, title = '', address = '']) => {
    if (/^[a-z]+:/.test(address)) return []
    return [
      {
        text: capitalized(title.replaceAll('`', '')),
        path: new URL(address, `file:///${folder}/`).pathname.slice(1),
      },
    ]
  })
}

function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

function addressOf(path: string): string {
  return `/${(sitePathOf(path) ?? path).replace(/(index)?\.md$/, '')}`
}
