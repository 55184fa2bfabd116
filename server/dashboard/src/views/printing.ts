/// What a page does for paper.
export interface Printable {
  begin(): void;            // at once: everything that there is, as wide as the paper
  end(): void;
  load(): Promise<void>;    // fetches what is not there yet
}

/// Prepares a page for paper and takes that back. By the keyboard, what is missing is fetched first; the browser's menu cannot wait, so it
/// prints what there is. The colours are the light ones. Returns what ends it.
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
    void page.load().catch(() => undefined).then(() => window.print());
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
