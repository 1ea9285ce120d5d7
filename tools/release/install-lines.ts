/** The lines of pages and examples that name the chart and the image: from the clone until a version is published, then from its registry. */
import { z } from 'zod'

/** `registry` is a host and a path, such as `ghcr.io/acme`; null until a version is published. */
export const published = z.strictObject({
  registry: z
    .string()
    .regex(/^[a-z0-9.-]+(:\d{1,5})?(\/[a-z0-9._-]+)*$/, 'must be a host and a path, such as ghcr.io/acme')
    .nullable(),
})
export type Published = z.infer<typeof published>

export function imageOf(registry: string | null): string {
  return registry === null ? 'davit' : `${registry}/davit`
}

export function chartOf(registry: string): string {
  return `oci://${registry}/charts/davit`
}

type Replacement = { find: RegExp; put: string }

function replacements({ registry }: Published, version: string): Record<string, Replacement[]> {
  const build = `docker build -t davit:${version} . && kind load docker-image davit:${version}\n`
  const chart = registry === null ? 'charts/davit' : `${chartOf(registry)} --version ${version}`
  const commands = [
    { find: /(kind create cluster\n)(docker build [^\n]*\n)?/, put: `$1${registry === null ? build : ''}` },
    { find: /(helm install davit )\S+( --version \S+)?( --namespace)/, put: `$1${chart}$3` },
  ]
  return {
    'README.md': commands,
    'docs/get-started/quickstart.md': commands,
    'examples/quickstart/values.yaml': [{ find: /(\n {2}repository: )\S+/, put: `$1${imageOf(registry)}` }],
    'examples/quickstart/receiver.yaml': [
      { find: /(\n +image: )\S+/, put: `$1${imageOf(registry)}:${version}` },
    ],
  }
}

/**
 * @param read undefined if the file does not exist
 * @returns the files with their wanted content @throws Error if a file has no such line
 */
export function installLines(
  given: Published,
  version: string,
  read: (path: string) => string | undefined,
): { path: string; content: string }[] {
  return Object.entries(replacements(given, version)).map(([path, changes]) => {
    const content = changes.reduce((text, { find, put }) => {
      if (!find.test(text)) throw new Error(`${path} has no line like ${find.source}`)
      return text.replace(find, put)
    }, read(path) ?? '')
    return { path, content }
  })
}
