/** Source: SSM API Reference, GetParameter and GetParameters. */
import { z } from 'zod'
import { operation } from '../call.ts'
import { authorizeParameter, seenAt, seenParameter, storeOf } from './parameter-access.ts'
import { readSelector } from './parameter-name.ts'
import { parameterOutput } from './read-version.ts'

const name = z.string().trim().min(1).max(2_048)

export const getParameter = operation('GetParameter', {
  family: 'reads',
  input: z.strictObject({ Name: name, WithDecryption: z.boolean().default(false) }),
  run(call, input) {
    const { name, selector } = readSelector(input.Name)
    authorizeParameter(call, 'ssm:GetParameter', name)
    return { Parameter: parameterOutput(call, seenParameter(call, name), selector, input.WithDecryption) }
  },
})

export const getParameters = operation('GetParameters', {
  family: 'reads',
  input: z.strictObject({ Names: z.array(name).min(1).max(10), WithDecryption: z.boolean().default(false) }),
  run(call, input) {
    const wanted = input.Names.map((given) => ({ given, ...readSelector(given) }))
    for (const { name } of wanted) authorizeParameter(call, 'ssm:GetParameters', name)
    const store = storeOf(call)
    const found = wanted.map((one) => ({ ...one, parameter: store.get(one.name, seenAt(call)) }))
    const isThere = ({ parameter, selector }: (typeof found)[number]) =>
      parameter?.versions.some(
        ({ version, labels }) =>
          selector === undefined || String(version) === selector || labels.includes(selector),
      ) ?? false
    return {
      Parameters: found
        .filter(isThere)
        .flatMap(({ parameter, selector }) =>
          parameter ? [parameterOutput(call, parameter, selector, input.WithDecryption)] : [],
        ),
      InvalidParameters: found.filter((one) => !isThere(one)).map(({ given }) => given),
    }
  },
})
