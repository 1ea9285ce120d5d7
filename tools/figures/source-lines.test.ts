import { expect, it } from 'vitest'
import { commentLineCount, lineCount } from './source-lines.ts'

it.each([
  { given: '', want: 0 },
  { given: 'const a = 1', want: 1 },
  { given: 'const a = 1\n', want: 1 },
  { given: 'const a = 1\n\nconst b = 2\n', want: 3 },
])('counts the lines of $given', ({ given, want }) => {
  expect(lineCount(given)).toBe(want)
})

it.each([
  { given: 'const a = 1\n', want: 0 },
  { given: '// one\n/* two */\nconst a = 1\n', want: 2 },
  { given: '/**\n * three lines\n */\nconst a = 1\n', want: 3 },
  { given: 'const a = 1 // code comes first\n', want: 0 },
  { given: '/* code comes last */ const a = 1\n', want: 0 },
  { given: "const a = '// é'\n  // an indented one\nconst b = `\n// text\n`\n", want: 1 },
  { given: '/* one\n\ntwo */\n', want: 2 },
])('counts the comment lines of $given', ({ given, want }) => {
  expect(commentLineCount(given)).toBe(want)
})
