/// The edit distance (Levenshtein) of two texts.
export function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, at) => at);
  for (let i = 1; i <= from.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= to.length; j += 1)
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (from[i - 1] === to[j - 1] ? 0 : 1)));
    row = next;
  }
  return row.at(-1)!;
}

/// The known text that is most likely meant; '' if none is near.
export const nearest = (text: string, known: readonly string[]): string => {
  const [best] = known.toSorted((a, b) => editDistance(text, a) - editDistance(text, b));
  return best !== undefined && editDistance(text, best) <= (text.length < 4 ? 1 : 2) ? best : '';
};
