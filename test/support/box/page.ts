/** Reads blocks of docs/guides/pull-images.md, which are pasted unchanged. */
import { readFileSync } from 'node:fs'

const PAGE = readFileSync(new URL('../../../docs/guides/pull-images.md', import.meta.url), 'utf8')

/** The only block of this language that contains these words. */
export function blockOf(language: string, words: string): string {
  const blocks = [...PAGE.matchAll(/^```(\w*)\n(.*?)^```$/gms)]
    .filter(([, given, text = '']) => given === language && text.includes(words))
    .map(([, , text = '']) => text)
  const [block, ...others] = blocks
  if (block === undefined || others.length > 0)
    throw new Error(`${blocks.length} blocks of ${language} have ${words}`)
  return block
}
