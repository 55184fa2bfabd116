/// Colours of the canvas come from the style sheet, so that charts follow the system's theme like the rest.
export function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export function onThemeChange(work: () => void): () => void {
  const query = matchMedia('(prefers-color-scheme: dark)');
  query.addEventListener('change', work);
  return () => query.removeEventListener('change', work);
}
