/**
 * Who may import whom, as data. The page on architecture has the reasons; in short: decisions know nothing of the
 * world, the engine nothing of our kinds, and each outside library one folder.
 */

export type Zone = {
  /** A folder with its slash, or one file. The first zone that fits a file is its zone. */
  path: string
  /** Folders and files that it may import besides itself. */
  imports: readonly string[]
  /** Those of them that it may import as types only. */
  typesOf?: readonly string[]
  /** Outside libraries, `*` for any; a name that ends with `/` stands for all packages of that scope. */
  libraries: readonly string[]
  /** Modules of Node; absent: any. */
  builtins?: readonly string[]
  /** May read process.env. */
  readsEnvironment?: boolean
}

const CONTRACT = ['src/api/', 'src/ports/']
const ALL_PARTS = [
  ...CONTRACT,
  'src/cmd/node-helpers.ts',
  'src/cmd/config.ts',
  'src/cmd/config.ts',
  'src/cmd/config.ts',
  'src/cmd/config.ts',
  'src/domain/',
  'src/runtime/',
  'src/controllers/',
  'src/adapters/',
  'src/rest/',
  'src/roles/',
]

/** What clients have, which tests use as they do. */
const PUBLISHED_TYPES = 'docs/openapi.d.ts'

export const ZONES: readonly Zone[] = [
  { path: 'src/main.ts', imports: ['src/'], libraries: [] },
  {
    path: 'src/cmd/config.ts',
    imports: ['src/cmd/config-values.ts', 'src/cmd/config.ts'],
    libraries: ['zod'],
    readsEnvironment: true,
  },
  { path: 'src/cmd/config.ts', imports: ['src/cmd/config-values.ts'], libraries: ['zod'] },
  {
    path: 'src/cmd/node-helpers.ts',
    imports: ['src/cmd/config-values.ts'],
    libraries: ['zod'],
    readsEnvironment: true,
  },
  { path: 'src/bin/', imports: ['src/roles/'], libraries: [] },
  { path: 'src/cmd/config.ts', imports: ['src/cmd/config.ts', 'src/api/'], libraries: ['zod'] },
  { path: 'src/cmd/config.ts', imports: ['src/cmd/config.ts'], libraries: ['zod'] },
  {
    path: 'src/cmd/config.ts',
    imports: ['src/cmd/config.ts', 'src/cmd/config.ts', 'src/cmd/config-values.ts'],
    libraries: ['zod'],
  },
  {
    path: 'src/cmd/config.ts',
    imports: ['src/cmd/config.ts', 'src/cmd/config.ts', 'src/cmd/config-values.ts'],
    libraries: ['zod'],
  },
  { path: 'src/cmd/config-values.ts', imports: [], libraries: ['zod'], builtins: ['node:net'] },
  { path: 'src/api/', imports: [], libraries: ['zod'], builtins: [] },
  { path: 'src/domain/', imports: ['src/api/'], libraries: [], builtins: ['node:crypto'] },
  { path: 'src/ports/', imports: ['src/api/'], typesOf: ['src/api/'], libraries: [], builtins: [] },
  { path: 'src/runtime/', imports: ['src/ports/', 'src/apis/meta.ts'], libraries: [] },
  { path: 'src/controllers/', imports: [...CONTRACT, 'src/domain/', 'src/runtime/'], libraries: [] },
  {
    path: 'src/rest/',
    imports: [...CONTRACT, 'src/domain/'],
    libraries: ['express', 'jsonc-parser', 'lru-cache', 'swagger-ui-dist', 'zod', 'zod-openapi'],
  },
  { path: 'src/adapters/kubernetes/', imports: CONTRACT, libraries: ['@kubernetes/client-node', 'undici'] },
  { path: 'src/adapters/http/', imports: CONTRACT, libraries: ['ipaddr.js', 'undici'] },
  { path: 'src/adapters/aws/', imports: CONTRACT, libraries: ['@aws-sdk/', '@smithy/'] },
  { path: 'src/adapters/smtp/', imports: CONTRACT, libraries: ['nodemailer'] },
  { path: 'src/adapters/prometheus/', imports: CONTRACT, libraries: ['prom-client'] },
  { path: 'src/adapters/system/', imports: CONTRACT, libraries: ['ajv', 'ajv-formats', 'pino'] },
  { path: 'src/adapters/registry/', imports: CONTRACT, libraries: ['ipaddr.js', 'undici'] },
  { path: 'src/adapters/skopeo/', imports: CONTRACT, libraries: [] },
  { path: 'src/adapters/layout/', imports: CONTRACT, libraries: ['zod'] },
  { path: 'src/roles/', imports: ALL_PARTS, libraries: [] },
  {
    path: 'src/playground/',
    imports: [...ALL_PARTS, 'tools/find-program.mjs', 'tools/process-lock.mjs'],
    libraries: ['*'],
    readsEnvironment: true,
  },
  { path: 'tools/docgen/', imports: ALL_PARTS, libraries: ['*'], readsEnvironment: true },
  {
    path: 'test/',
    imports: [...ALL_PARTS, 'src/playground/', 'tools/docgen/', 'tools/', PUBLISHED_TYPES],
    typesOf: [PUBLISHED_TYPES],
    libraries: ['*'],
    readsEnvironment: true,
  },
  { path: 'tools/', imports: [], libraries: [], readsEnvironment: true },
]

/** A test beside its file uses what tests share, and puts parts together that do not know each other. */
export const TEST_FILE = /\.test\.ts$/

export const TEST_ZONE: Zone = {
  path: 'a test',
  imports: ['src/', 'test/', 'tools/', PUBLISHED_TYPES],
  typesOf: [PUBLISHED_TYPES],
  libraries: ['*'],
  readsEnvironment: true,
}

/** Whatever a zone's own rule says. */
export const NOBODY_IMPORTS = 'src/main.ts'

export const LONGEST_FILE = 300
