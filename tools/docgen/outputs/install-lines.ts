/** The commands and images of the README, the quickstart and its example, from `tools/release/published.json`. */
import { installLines, published } from '../../release/install-lines.ts'
import type { Output } from '../generated-file.ts'

export const installCommands: Output = {
  owns: [],
  files(read) {
    const version = JSON.parse(read('package.json') ?? '{}').version as string
    const given = published.parse(JSON.parse(read('tools/release/published.json') ?? '{}'))
    return installLines(given, version, read)
  },
}
