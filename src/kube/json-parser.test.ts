import { expect, it } from 'vitest'
import { customResourceDefinition, kinds } from '../../tools/docgen/crd.ts'
import { resourceType } from '../apis/meta.ts'
import { parseJson } from '../lib/json.ts'
import { jsonParserFor } from './watch-stream.ts'

it.each(kinds)(
  '$kind is read with care where its owner chooses names of members, and fast elsewhere',
  (kind) => {
    const hasFreeNames = JSON.stringify(customResourceDefinition(kind)).includes(
      '"x-kubernetes-preserve-unknown-fields":true',
    )
    expect(jsonParserFor(resourceType(kind))).toBe(hasFreeNames ? parseJson : JSON.parse)
  },
)
