/** A wildcard from a policy variable is a plain character: in a pattern it becomes one of these, which match nothing else. */
const MARKS: Readonly<Record<string, string>> = { '*': '\uE000', '?': '\uE001' }

/** @returns a pattern that matches only the text */
export function literally(text: string): string {
  return text.replace(/[*?]/g, (character) => MARKS[character] ?? character)
}

/** Matches `*` and `?` like policies do; linear in practice, for any pattern. */
export function matchesGlob(pattern: string, text: string): boolean {
  let [inPattern, inText] = [0, 0]
  let [star, resume] = [-1, 0]
  while (inText < text.length) {
    if (pattern[inPattern] === '*') {
      star = inPattern
      resume = inText
      inPattern += 1
    } else if (inPattern < pattern.length && isOne(pattern[inPattern], text[inText])) {
      inPattern += 1
      inText += 1
    } else if (star >= 0) {
      inPattern = star + 1
      resume += 1
      inText = resume
    } else return false
  }
  while (pattern[inPattern] === '*') inPattern += 1
  return inPattern === pattern.length
}

function isOne(wanted: string | undefined, given: string | undefined): boolean {
  return wanted === '?' || wanted === given || (given !== undefined && wanted === MARKS[given])
}

/**
 * Matches each of the six parts of an ARN separately, so that a wildcard does not cross a colon; parts that the pattern leaves
 * out match anything.
 * Source: IAM User Guide, "Condition operators", ARN; "Resource", incomplete ARNs.
 */
export function matchesArn(pattern: string, arn: string): boolean {
  if (pattern === '*') return true
  const [wanted, given] = [partsOf(pattern), partsOf(arn)]
  while (wanted.length < ARN_PARTS) wanted.push('*')
  return given.length === ARN_PARTS && wanted.every((part, index) => matchesGlob(part, given[index] ?? ''))
}

const ARN_PARTS = 6

function partsOf(arn: string): string[] {
  const parts = arn.split(':')
  if (parts.length <= ARN_PARTS) return parts
  return [...parts.slice(0, ARN_PARTS - 1), parts.slice(ARN_PARTS - 1).join(':')]
}
