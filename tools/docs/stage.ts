/**
 * The source of the documentation site, from the pages of the repository: the same Markdown, with links that hold on the site.
 * Pages stay readable where they are, for example on GitHub.
 */
import { posix } from 'node:path'

/** Where files are on the site. Everything is a path from the root of the repository, or from that of the site. */
export type SiteFiles = {
  /** Page of the repository to page of the site, such as `docs/guides/install.md` to `guides/install.md`. */
  pages: ReadonlyMap<string, string>
  /** Whether the repository has a file with this path, and not a folder. */
  isFile: (path: string) => boolean
}

export type StagedPage = {
  text: string
  /** Files of the repository that are no pages and that the page links to; the site has them at `/files/<path>`. */
  attachments: string[]
}

/** Pages that are outside of `docs`, and their place on the site. */
const ELSEWHERE: readonly (readonly [RegExp, string])[] = [
  [/^CHANGELOG\.md$/, 'releases/changelog.md'],
  [/^CONTRIBUTING\.md$/, 'contributing/index.md'],
  [/^SECURITY\.md$/, 'contributing/security.md'],
  [/^contract\/README\.md$/, 'contributing/contract.md'],
  [/^test\/reports\/(.+\.md)$/, 'contributing/reports/$1'],
  [/^src\/(?:(.+)\/)?README\.md$/, 'contributing/source/$1.md'],
]

/** A link or a picture: its start, its address, and its end. */
const LINK = /(\]\()([^)\s]+)(\))/g
const FENCE = /^\s*(?:```|~~~)/
const URL_WITH_SCHEME = /^[a-z][a-z+.-]*:/

/** @returns `undefined` if the file is no page of the site */
export function sitePathOf(path: string): string | undefined {
  if (path.startsWith('docs/') && path.endsWith('.md')) {
    return path.slice('docs/'.length).replace(/(^|\/)README\.md$/, '$1index.md')
  }
  const found = ELSEWHERE.find(([pattern]) => pattern.test(path))
  return found && path.replace(...found)
}

/** @throws Error if a link leads to a folder, or to nothing */
export function stagePage(path: string, text: string, files: SiteFiles): StagedPage {
  const attachments = new Set<string>()
  const own = files.pages.get(path) ?? path
  const linkOf = (start: string, address: string, end: string) =>
    start + siteAddressOf(address, { path, own, files, attachments }) + end
  let isCode = false
  const lines = text.split('\n').map((line) => {
    if (FENCE.test(line)) isCode = !isCode
    return isCode
      ? line
      : line.replace(LINK, (_, start: string, address: string, end: string) => linkOf(start, address, end))
  })
  return { text: lines.join('\n'), attachments: [...attachments] }
}

type PagePlace = { path: string; own: string; files: SiteFiles; attachments: Set<string> }

function siteAddressOf(address: string, { path, own, files, attachments }: PagePlace): string {
  if (URL_WITH_SCHEME.test(address) || address.startsWith('#')) return address
  const [relative = '', anchor] = address.split('#')
  const target = posix.join(posix.dirname(path), relative)
  const page = files.pages.get(target) ?? files.pages.get(posix.join(target, 'README.md'))
  if (page !== undefined) {
    const link = posix.relative(posix.dirname(own), page)
    return `${link.startsWith('.') ? '' : './'}${link}${anchor === undefined ? '' : `#${anchor}`}`
  }
  if (!files.isFile(target)) throw new Error(`${path} links to ${address}, which is not a file`)
  attachments.add(target)
  // The site copies a picture itself, and next to its page.
  return /\.(svg|png)$/.test(target) ? address : `/files/${target}`
}
