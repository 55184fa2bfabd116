const known = new Map<string, string>();  // asking the style sheet costs a new layout each time

function isDark(scheme: string): boolean {
  return scheme.includes('light') && scheme.includes('dark') ? matchMedia('(prefers-color-scheme: dark)').matches : scheme.includes('dark');
}

/// Colours of the canvas come from the style sheet, where each is light-dark(#…, #…), so that charts follow the theme like the rest.
export function color(name: string): string {
  let found = known.get(name);
  if (found === undefined) {
    const style = getComputedStyle(document.documentElement);
    const [light = '#888888', dark = light] = style.getPropertyValue(`--${name}`).match(/#\w+/g) ?? [];
    known.set(name, found = isDark(style.colorScheme) ? dark : light);
  }
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
