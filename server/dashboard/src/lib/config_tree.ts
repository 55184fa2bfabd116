/// The leaves of a configuration by path: "model.layers" -> "6". Understands the YAML that the service writes: mappings and lists by
/// indentation, scalars on one line. Keeps anything else as text under its line's path.
export function flatten(yaml: string): Map<string, string> {
  const leaves = new Map<string, string>();
  const path: { indent: number; name: string; next: number }[] = [];
  const above = (): string => path.map(({ name }) => name).join('.');
  for (const line of yaml.split('\n')) {
    const match = /^(\s*)(- +|-$)?(.*?)\s*$/.exec(line)!;
    const [, space = '', dash, text = ''] = match;
    if (!dash && (text === '' || text.startsWith('#') || text === '---')) continue;
    let indent = space.length;
    if (dash) {
      while (
        path.length > 0 &&
        (path.at(-1)!.indent > indent || (path.at(-1)!.indent === indent && /^\d+$/.test(path.at(-1)!.name)))
      )
        path.pop();
      const owner = path.at(-1);
      path.push({ indent, name: String(owner ? owner.next++ : leaves.size), next: 0 });
      indent += dash.length;
    } else {
      while (path.length > 0 && path.at(-1)!.indent >= indent) path.pop();
    }
    const pair = /^("[^"]*"|'[^']*'|[^\s"'[{][^:]*):(?:\s+(.*))?$/.exec(text);
    if (!pair) {
      if (text !== '') leaves.set(above() || text, text);
      continue;
    }
    path.push({ indent, name: pair[1]!.replace(/^["']|["']$/g, ''), next: 0 });
    if (pair[2] !== undefined && pair[2] !== '') leaves.set(above(), pair[2]);
  }
  return leaves;
}

/// Null where a configuration lacks the path.
export type ConfigDifference = { path: string; left: string | null; right: string | null };

export function differences(left: string, right: string): ConfigDifference[] {
  const a = flatten(left);
  const b = flatten(right);
  return [...new Set([...a.keys(), ...b.keys()])]
    .filter((path) => a.get(path) !== b.get(path))
    .map((path) => ({ path, left: a.get(path) ?? null, right: b.get(path) ?? null }));
}

/// The lines that contain the text, each with the lines it is nested under.
export function search(yaml: string, text: string): { line: string; hit: boolean }[] {
  const lines = yaml.split('\n').map((line) => ({ line, hit: false, shown: false }));
  const wanted = text.trim().toLowerCase();
  if (wanted === '') return lines.map(({ line }) => ({ line, hit: false }));
  const indentOf = (line: string): number => line.length - line.trimStart().length;
  lines.forEach((entry, at) => {
    if (!entry.line.toLowerCase().includes(wanted)) return;
    entry.hit = entry.shown = true;
    let indent = indentOf(entry.line);
    for (let above = at - 1; above >= 0 && indent > 0; above -= 1) {
      const line = lines[above]!.line;
      if (line.trim() === '' || indentOf(line) >= indent) continue;
      lines[above]!.shown = true;
      indent = indentOf(line);
    }
  });
  return lines.filter(({ shown }) => shown).map(({ line, hit }) => ({ line, hit }));
}
