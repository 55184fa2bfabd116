/// Colours of the canvas come from the style sheet, so that charts follow the theme like the rest.
export function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/// The system's theme changed, or the reader switched (lib/theme_choice.ts).
export function onThemeChange(work: () => void): () => void {
  const query = matchMedia('(prefers-color-scheme: dark)');
  query.addEventListener('change', work);
  window.addEventListener('themechange', work);
  return () => {
    query.removeEventListener('change', work);
    window.removeEventListener('themechange', work);
  };
}
