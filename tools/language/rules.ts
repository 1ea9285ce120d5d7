/**
 * What the texts of Davit must not contain: docs/contributing/style.md says why. Each pattern has a sentence that it finds, so that a
 * pattern that finds nothing any more fails its test.
 */
export type Rule = { pattern: RegExp; use: string; finds: string }

export const RULES: readonly Rule[] = [
  { pattern: /\banew\b/i, use: 'again', finds: 'It reads the object anew.' },
  { pattern: /\bonce more\b/i, use: 'again', finds: 'Bake it once more.' },
  { pattern: /\bbesides?\b(?! the point)/i, use: 'in addition to, next to', finds: 'It signs beside it.' },
  { pattern: /\bmend(s|ed|ing)?\b/i, use: 'fix', finds: 'Mend the receiver.' },
  { pattern: /\bin force\b/i, use: 'active, takes effect', finds: 'The change is not in force yet.' },
  { pattern: /\bunder way\b/i, use: 'in progress', finds: 'Attempts are under way.' },
  { pattern: /\ball the same\b/i, use: 'anyway', finds: 'It is sent all the same.' },
  {
    pattern: /\bcom(e|es|ing) again\b/i,
    use: 'retry',
    finds: 'Come again after the seconds of Retry-After.',
  },
  { pattern: /\b(go|goes|went|going) on\b/i, use: 'continue', finds: 'It goes on where it was.' },
  {
    pattern: /\bso (many|long|much)\b(?! (as|that)\b)/i,
    use: 'the number of, as long as',
    finds: 'Delete this object so many seconds after it was dispatched.',
  },
  {
    pattern: /\b(has|have|had) (none\b|not (the|a|an|any|what|its|it)\b)/i,
    use: 'does not have',
    finds: 'The event has not the type.',
  },
  {
    pattern: /\bthat there (is|are) (not|no)\b/i,
    use: 'that does not exist',
    finds: 'A value that there is not.',
  },
  { pattern: /\bbe had\b/i, use: 'is available', finds: 'The key cannot be had yet.' },
  {
    pattern: /\b(whoever|somebody|nobody)\b/i,
    use: 'you, the cluster operator, or the passive',
    finds: 'Nothing waits for somebody to act.',
  },
  { pattern: /\b(is|are|was|were) told\b/i, use: 'receives, is notified', finds: 'Their owners are told.' },
  {
    pattern:
      /(?<!\bthere )\b(is|are) no(ne)?\b(?! (longer|more|less|different|need|later|earlier|smaller|larger)\b)/i,
    use: 'is not a',
    finds: 'The namespace is no organization.',
  },
  {
    pattern: /\bas [a-z ]{1,40} as may\b/i,
    use: 'the limit is reached',
    finds: 'As many endpoints as may be.',
  },
  {
    pattern: /\bWhere (it|that|this|one|you|there|a|an|the)\b/,
    use: 'If',
    finds: 'Where that waits, describe says why.',
  },
  { pattern: /\bfacades?\b/i, use: 'REST API, or REST server for the process', finds: 'The facade answers.' },
  {
    pattern: /(?<!connection )\brefus(e|es|ed|ing|al|als)\b/i,
    use: 'reject',
    finds: 'The chart refuses what does not fit.',
  },
  { pattern: /\bhand-?over secrets?\b/i, use: 'input Secret', finds: 'The hand-over Secret is deleted.' },
  { pattern: /\brealms?\b(?!=)/i, use: 'token endpoint', finds: 'The realm of the registry.' },
  { pattern: /\bwords of the tool\b/i, use: 'tool output', finds: 'The words of the tool follow.' },
  { pattern: /\bdouble of AWS\b/i, use: 'AWS emulator', finds: 'It runs on the double of AWS.' },
  {
    pattern:
      /\bwhat (is|was|are|were) (sent|stored|accepted|received|written|published|left|pending|held|asked|needed|wrong|kept)\b/i,
    use: 'the noun: the delivery, the object',
    finds: 'What is sent is signed.',
  },
  {
    pattern: /\bwhat (came|comes|became|becomes) of\b/i,
    use: 'the result of',
    finds: 'It shows what came of it.',
  },
  { pattern: /\bwhat (it|they) (has|have) not\b/i, use: 'Limitations', finds: 'What it has not: a portal.' },
  { pattern: /\blook(s|ed|ing)? into\b/i, use: 'inspect', finds: 'It looks into the log.' },
  { pattern: /\bby itself\b/i, use: 'automatically', finds: 'Nothing happens there by itself.' },
  { pattern: /\bthe one before\b/i, use: 'the previous one', finds: 'It waits for the one before.' },
  { pattern: /\bin vain\b/i, use: 'times out, without success', finds: 'Where that waits in vain.' },
  { pattern: /\bput off\b/i, use: 'delayed', finds: 'Requests are put off.' },
  { pattern: /\bgrav(e|er|est)\b/i, use: 'severe', finds: 'The least grave lines of the log.' },
  { pattern: /\bcares? for\b/i, use: 'handle', finds: 'What a receiver has to care for.' },
  { pattern: /\bneighbours?\b/i, use: 'other replica', finds: 'No such neighbour.' },
]

/** Words of a sentence, beyond which it is split. */
export const MAX_WORDS = 30

/** Words of the title of a problem. */
export const MAX_TITLE_WORDS = 4

/** @returns what to change, in words */
export function findingsIn(text: string): string[] {
  const retired = RULES.flatMap(({ pattern, use }) => {
    const found = pattern.exec(text)?.[0]
    return found === undefined ? [] : [`"${found}": use ${use}`]
  })
  const long = sentencesOf(text).filter((sentence) => wordsOf(sentence) > MAX_WORDS)
  return [
    ...retired,
    ...long.map(
      (one) => `${wordsOf(one)} words in a sentence, ${MAX_WORDS} are the limit: "${one.slice(0, 60)}..."`,
    ),
  ]
}

function sentencesOf(text: string): string[] {
  return text.split(/(?<=[.!?:;])\s+(?=[A-Z"'(`])/)
}

/** Names in code, also several in a row, and reasons such as `BakeImageMissing`. */
const NAMES = /\b(Code|[A-Z][a-z]+[A-Z]\w*)( (or|and) (?=Code\b))?/g

/** Without names in code. */
export function wordsOf(text: string): number {
  return text
    .replaceAll(NAMES, '')
    .split(/\s+/)
    .filter((word) => /[a-z0-9]/i.test(word)).length
}
