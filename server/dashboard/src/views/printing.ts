/// A page that can be printed.
export interface Printable {
  begin(): void; // synchronously shows everything loaded, at the width of the paper
  end(): void;
  load(): Promise<void>; // fetches everything that is not loaded yet
}

/// Prepares a page for printing in light colours and restores it afterwards. The keyboard shortcut first fetches missing data; the
/// browser's print menu cannot wait and prints what is loaded. Returns a function that removes the listeners.
export function followPrinting(page: Printable): () => void {
  const { documentElement: root } = document;
  let theme: string | undefined;
  const switchTheme = (to: string | undefined): void => {
    if (to === undefined) delete root.dataset['theme'];
    else root.dataset['theme'] = to;
    window.dispatchEvent(new Event('themechange'));
  };
  const before = (): void => {
    if (root.classList.contains('printing')) return;
    root.classList.add('printing');
    theme = root.dataset['theme'];
    page.begin();
    switchTheme('light');
  };
  const after = (): void => {
    if (!root.classList.contains('printing')) return;
    root.classList.remove('printing');
    page.end();
    switchTheme(theme);
  };
  const key = (event: KeyboardEvent): void => {
    if (event.key.toLowerCase() !== 'p' || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
    event.preventDefault();
    void page
      .load()
      .catch(() => undefined)
      .then(() => window.print());
  };
  window.addEventListener('beforeprint', before);
  window.addEventListener('afterprint', after);
  window.addEventListener('keydown', key);
  return () => {
    after();
    window.removeEventListener('beforeprint', before);
    window.removeEventListener('afterprint', after);
    window.removeEventListener('keydown', key);
  };
}
