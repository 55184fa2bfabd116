const known = new Map<string, string>();  // asking the style sheet costs a new layout each time

/// Colours of the canvas come from the style sheet, so that charts follow the theme like the rest.
export function color(name: string): string {
  let found = known.get(name);
  if (found === undefined) known.set(name, found = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return found;
}

/// The system's theme changed, or the reader switched (lib/theme_choice.ts).
export function onThemeChange(work: () => void): () => void {
  const changed = (): void => {
    known.clear();
    work();
  };
  const query = matchMedia('(prefers-color-scheme: dark)');
  query.addEventListener('change', changed);
  window.addEventListener('themechange', changed);
  known.clear();
  return () => {
    query.removeEventListener('change', changed);
    window.removeEventListener('themechange', changed);
  };
}
