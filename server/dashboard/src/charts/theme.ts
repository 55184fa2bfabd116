const known = new Map<string, string>(); // cache: each lookup in the style sheet forces a layout

function isDark(scheme: string): boolean {
  return scheme.includes('light') && scheme.includes('dark')
    ? matchMedia('(prefers-color-scheme: dark)').matches
    : scheme.includes('dark');
}

/// A colour from the style sheet, where each is light-dark(#…, #…), so that charts follow the theme.
export function color(name: string): string {
  let found = known.get(name);
  if (found === undefined) {
    const style = getComputedStyle(document.documentElement);
    const [light = '#888888', dark = light] = style.getPropertyValue(`--${name}`).match(/#\w+/g) ?? [];
    known.set(name, (found = isDark(style.colorScheme) ? dark : light));
  }
  return found;
}

/// Calls `work` when the system's theme changes or the user switches it (lib/theme_choice.ts).
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
