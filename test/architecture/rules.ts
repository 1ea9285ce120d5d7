/**
 * Who may import whom, as data. Features stand on plumbing, the REST server on features, and the command lines put everything
 * together; each outside library has one home, and decisions do no I/O.
 */

export type Zone = {
  /** A folder with its slash, or one file. The first zone that fits a file is its zone. */
  path: string
  /** Folders and files that it may import in addition to itself. */
  imports: readonly string[]
  /** Those of them that it may import as types only. */
  typesOf?: readonly string[]
  /** Outside libraries, `*` for any; a name that ends with `/` stands for all packages of that scope. */
  libraries: readonly string[]
  /** May read process.env. */
  readsEnvironment?: boolean
}

const PLUMBING = ['src/lib/', 'src/apis/', 'src/net/', 'src/kube/', 'src/ha/']
const FEATURES = ['src/webhooks/', 'src/credentials/', 'src/boxes/']
const PRODUCT = [...PLUMBING, ...FEATURES, 'src/server/', 'src/receiver/', 'src/cmd/']

/** What clients have, which tests use as they do. */
const PUBLISHED_TYPES = 'docs/reference/openapi.d.ts'

export const ZONES: readonly Zone[] = [
  { path: 'src/main.ts', imports: ['src/cmd/', 'src/lib/version.ts'], libraries: [] },
  { path: 'src/bin/', imports: ['src/cmd/', 'src/lib/'], libraries: [] },
  { path: 'src/lib/', imports: [], libraries: ['ajv', 'jsonc-parser', 'lru-cache', 'nodemailer', 'pino'] },
  { path: 'src/apis/', imports: ['src/lib/'], libraries: ['zod'] },
  { path: 'src/net/', imports: ['src/lib/', 'src/apis/'], libraries: ['ipaddr.js', 'lru-cache', 'undici'] },
  {
    path: 'src/kube/',
    imports: ['src/lib/', 'src/apis/'],
    libraries: ['@kubernetes/client-node', 'jose', 'lru-cache', 'undici'],
  },
  { path: 'src/ha/', imports: ['src/lib/', 'src/apis/', 'src/kube/'], libraries: [] },
  { path: 'src/webhooks/', imports: PLUMBING, libraries: ['lru-cache', 'undici'] },
  {
    path: 'src/credentials/',
    imports: [...PLUMBING, 'src/boxes/'],
    libraries: ['@aws-sdk/', '@smithy/', 'lru-cache'],
  },
  {
    path: 'src/boxes/',
    imports: [...PLUMBING, 'src/credentials/'],
    libraries: ['lru-cache', 'undici', 'zod'],
  },
  {
    path: 'src/server/',
    imports: [...PLUMBING, ...FEATURES],
    libraries: ['express', 'lru-cache', 'swagger-ui-dist', 'zod', 'zod-openapi'],
  },
  { path: 'src/receiver/', imports: ['src/lib/'], libraries: ['lru-cache', 'standardwebhooks', 'zod'] },
  {
    path: 'src/cmd/config.ts',
    imports: ['src/cmd/setting-parsers.ts', 'src/lib/', 'src/apis/'],
    libraries: ['zod'],
    readsEnvironment: true,
  },
  {
    // Starts within milliseconds, so it loads none of the rest of the configuration.
    path: 'src/cmd/node-helpers.ts',
    imports: PRODUCT,
    libraries: ['zod'],
    readsEnvironment: true,
  },
  { path: 'src/cmd/', imports: PRODUCT, libraries: ['prom-client', 'zod'] },
  {
    path: 'playground/',
    imports: [...PRODUCT, 'test-support/', 'tools/find-program.mjs', 'tools/process-lock.mjs'],
    libraries: ['*'],
    readsEnvironment: true,
  },
  { path: 'test-support/', imports: PRODUCT, libraries: ['*'], readsEnvironment: true },
  {
    path: 'test/',
    imports: [...PRODUCT, 'playground/', 'test-support/', 'tools/', PUBLISHED_TYPES],
    typesOf: [PUBLISHED_TYPES],
    libraries: ['*'],
    readsEnvironment: true,
  },
  {
    path: 'tools/',
    imports: [...PRODUCT, 'playground/', 'test/', 'test-support/'],
    libraries: ['*'],
    readsEnvironment: true,
  },
]

/** What `npm run` starts by itself. */
export const PROGRAM = /^(test\/[^/]+|tools\/[^/]+|playground)\/main\.ts$/

/** A test next to its file uses what tests share, and puts parts together that do not know each other. */
export const TEST_FILE = /\.test\.ts$/

export const TEST_ZONE: Zone = {
  path: 'a test',
  imports: ['src/', 'playground/', 'test/', 'test-support/', 'tools/', PUBLISHED_TYPES],
  typesOf: [PUBLISHED_TYPES],
  libraries: ['*'],
  readsEnvironment: true,
}

/** Applies in addition to a zone's own rule. */
export const NOBODY_IMPORTS = 'src/main.ts'

export const LONGEST_FILE = 600

/**
 * Files of decisions: these, and whatever they import as values, do no I/O and take time and chance as arguments.
 */
export const PURE_FILE =
  /^src\/.*\/(plan|retention-plan|retry-schedule|assignment|conditions|status|signature|key-rotation|codec|annotations|registry-host|image-reference|credential-choice)\.ts$/

/** What decisions may use of Node: hashes are functions of their input. */
export const PURE_BUILTINS = [
  'node:crypto',
  'node:net',
  'node:path',
  'node:path/posix',
  'node:util',
  'node:zlib',
]
