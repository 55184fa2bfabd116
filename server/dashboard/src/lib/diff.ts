/// A run of words in one text; `same` is false if the other text differs here.
export interface DiffSpan {
  text: string;
  same: boolean;
}

export interface WordDiff {
  reference: DiffSpan[];
  hypothesis: DiffSpan[];
}

// Scripts whose words no spaces separate.
const UNSPACED =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;
const words = new Intl.Segmenter(undefined, { granularity: 'word' });

/// Splits text into words and punctuation marks, each with the white space before it.
function tokens(text: string): string[] {
  const found = text.match(/\s*(?:[\p{L}\p{N}\p{M}]+|[^\s\p{L}\p{N}\p{M}])/gu) ?? [];
  return found.flatMap((token) => {
    if (!UNSPACED.test(token)) return [token];
    const word = token.trimStart();
    const parts = [...words.segment(word)].map(({ segment }) => segment);
    parts[0] = token.slice(0, token.length - word.length) + parts[0];
    return parts;
  });
}

/// Lengths of the longest common subsequences of all suffix pairs, row by row.
function suffixTable(left: readonly string[], right: readonly string[]): Uint16Array[] {
  const table = Array.from({ length: left.length + 1 }, () => new Uint16Array(right.length + 1));
  for (let i = left.length - 1; i >= 0; i -= 1) {
    const row = table[i]!;
    const below = table[i + 1]!;
    for (let j = right.length - 1; j >= 0; j -= 1) {
      row[j] = left[i] === right[j] ? below[j + 1]! + 1 : Math.max(below[j]!, row[j + 1]!);
    }
  }
  return table;
}

function append(spans: DiffSpan[], text: string, same: boolean): void {
  const last = spans.at(-1);
  if (last && last.same === same) last.text += text;
  else spans.push({ text, same });
}

/// A word diff by longest common subsequence. The spans of each side concatenate to its text.
export function diffWords(reference: string, hypothesis: string): WordDiff {
  const left = tokens(reference);
  const right = tokens(hypothesis);
  const leftWords = left.map((token) => token.trim());
  const rightWords = right.map((token) => token.trim());
  const table = suffixTable(leftWords, rightWords);
  const result: WordDiff = { reference: [], hypothesis: [] };
  let i = 0;
  let j = 0;
  while (i < left.length || j < right.length) {
    if (i < left.length && j < right.length && leftWords[i] === rightWords[j]) {
      append(result.reference, left[i++]!, true);
      append(result.hypothesis, right[j++]!, true);
    } else if (j >= right.length || (i < left.length && table[i + 1]![j]! >= table[i]![j + 1]!)) {
      append(result.reference, left[i++]!, false);
    } else {
      append(result.hypothesis, right[j++]!, false);
    }
  }
  return result;
}
