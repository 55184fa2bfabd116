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
