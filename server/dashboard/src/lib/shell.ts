export interface Shortcut {
  keys: readonly string[]; // values of KeyboardEvent.key
  what: string;
  run?: (event: KeyboardEvent) => void; // absent: handled elsewhere, listed for the help only
}

const groups = new Map<string, readonly Shortcut[]>();

/// Whether the focused element takes text input, so that keys are not shortcuts.
function typing(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable ||
      target instanceof HTMLTextAreaElement ||
      target instanceof HTMLSelectElement ||
      (target instanceof HTMLInputElement && !['checkbox', 'radio', 'button'].includes(target.type)))
  );
}

/// Registers shortcuts and lists them under `title` in the help. The returned function removes them.
export function addShortcuts(title: string, shortcuts: readonly Shortcut[]): () => void {
  groups.set(title, shortcuts);
  return () => {
    if (groups.get(title) === shortcuts) groups.delete(title);
  };
}

export function onShortcutKey(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  if (document.querySelector('dialog[open]')) return;
  for (const shortcuts of groups.values()) {
    const found = shortcuts.find(({ keys, run }) => run && keys.includes(event.key));
    if (!found) continue;
    found.run!(event);
    return;
  }
}

/// All registered shortcuts, by group.
export const shortcutGroups = (): ReadonlyMap<string, readonly Shortcut[]> => groups;

/// The theme: light, dark, or that of the system. Stored in this browser.
export type ThemeChoice = 'system' | 'light' | 'dark';

const KEY = 'babelring.theme';
const ORDER: readonly ThemeChoice[] = ['system', 'light', 'dark'];

export function themeOf(stored: string | null): ThemeChoice {
  return ORDER.find((choice) => choice === stored) ?? 'system';
}

export const nextTheme = (choice: ThemeChoice): ThemeChoice => ORDER[(ORDER.indexOf(choice) + 1) % ORDER.length]!;

export function readTheme(): ThemeChoice {
  try {
    return themeOf(localStorage.getItem(KEY));
  } catch {
    return 'system';
  }
}

/// Applies the theme to the document and fires "themechange" on window, for canvases.
export function applyTheme(choice: ThemeChoice): void {
  if (choice === 'system') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = choice;
  try {
    localStorage.setItem(KEY, choice);
  } catch {
    // without storage the choice lasts as long as the page
  }
  window.dispatchEvent(new Event('themechange'));
}
