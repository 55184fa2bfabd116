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
