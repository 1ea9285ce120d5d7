import { expect, test } from 'vitest'
import { markdownTable } from './markdown-table.ts'

test('a table keeps code as it is and takes the rest for text', () => {
  expect(
    markdownTable(
      ['A', 'B'],
      [
        ['`*` alone', "'*' or ['*']"],
        ['`a|b`', 'broken\ntext'],
        ['', ['one', '<two>']],
      ],
    ),
  ).toBe(
    [
      '| A | B |',
      '| --- | --- |',
      "| `*` alone | '\\*' or \\['\\*'\\] |",
      '| `a\\|b` | broken text |',
      '|  | one<br>\\<two\\> |',
      '',
    ].join('\n'),
  )
})
