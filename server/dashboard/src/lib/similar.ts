/// The edit distance (Levenshtein) of two texts.
export function editDistance(left: string, right: string): number {
  let row = Array.from({ length: right.length + 1 }, (_, at) => at);
  for (let i = 1; i <= left.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= right.length; j += 1) {
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (left[i - 1] === right[j - 1] ? 0 : 1)));
    }
    row = next;
  }
  return row[right.length]!;
}

/// 0 for equal texts, 1 if one contains the other, more for each edit; null if they are not similar.
function unlikeness(sought: string, text: string): number | null {
  const [a, b] = [sought.toLowerCase(), text.toLowerCase()];
  if (a === b) return 0;
  if (Math.min(a.length, b.length) >= 3 && (a.includes(b) || b.includes(a))) return 1;
  const distance = editDistance(a, b);
  return distance <= Math.max(1, Math.floor(Math.min(a.length, b.length) / 4)) ? 1 + distance : null;
}

/// The runs with a name or id similar to the text, most similar first; ties keep their order.
export function similarRuns<Named extends { id: string; name: string }>(
  sought: string,
  runs: readonly Named[],
  most = 5,
): Named[] {
  const found = runs.flatMap((run) => {
    const values = [run.id, run.name].flatMap((text) => (text ? (unlikeness(sought, text) ?? []) : []));
    return values.length > 0 ? [{ run, by: Math.min(...values) }] : [];
  });
  return found
    .sort((a, b) => a.by - b.by)
    .slice(0, most)
    .map(({ run }) => run);
}
