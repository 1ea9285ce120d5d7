/** Source: SSM API Reference, LabelParameterVersion. */
import { z } from 'zod'
import { AwsError } from '../aws-error.ts'
import { operation } from '../call.ts'
import { authorizeParameter, notFound, storeOf } from './parameter-access.ts'
import { selectVersion } from './read-version.ts'

const MAX_LABELS = 10
const LABEL = /^(?!aws|ssm)[a-zA-Z_.-][a-zA-Z0-9_.-]*$/i

export const labelParameterVersion = operation('LabelParameterVersion', {
  family: 'tags',
  input: z.strictObject({
    Name: z.string().trim().min(1).max(2_048),
    ParameterVersion: z.int().optional(),
    Labels: z.array(z.string().min(1).max(100)).min(1).max(MAX_LABELS),
  }),
  run(call, { Name, ParameterVersion, Labels }) {
    authorizeParameter(call, 'ssm:LabelParameterVersion', Name)
    const store = storeOf(call)
    const parameter = store.get(Name)
    if (!parameter) throw notFound()
    const { version } = selectVersion(
      parameter,
      ParameterVersion === undefined ? undefined : String(ParameterVersion),
    )
    const valid = Labels.filter((label) => LABEL.test(label))
    // A label belongs to one version only, so it moves.
    const versions = parameter.versions.map((one) => {
      const others = one.labels.filter((label) => !valid.includes(label))
      return { ...one, labels: one.version === version ? [...others, ...new Set(valid)] : others }
    })
    if (versions.some(({ labels }) => labels.length > MAX_LABELS))
      throw AwsError.coded(
        'ParameterVersionLabelLimitExceeded',
        `A parameter version can have a maximum of ${MAX_LABELS} labels.`,
      )
    store.put({ ...parameter, versions }, call.now)
    return { InvalidLabels: Labels.filter((label) => !valid.includes(label)), ParameterVersion: version }
  },
})
