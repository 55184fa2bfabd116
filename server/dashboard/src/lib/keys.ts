export interface Shortcut {
  keys: readonly string[];  // as KeyboardEvent.key says them
  what: string;
  run?: (event: KeyboardEvent) => void;  // absent: handled elsewhere, named here for the help only
}

const groups = new Map<string, readonly Shortcut[]>();

/// Whether keys go into what has the focus, and are no shortcuts.
function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || target instanceof HTMLTextAreaElement ||
    target instanceof HTMLSelectElement || (target instanceof HTMLInputElement && !['checkbox', 'radio', 'button'].includes(target.type)));
}

/// Makes shortcuts work, and be listed under `title` in the help, until the returned function is called.
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

/// All shortcuts of the page that is shown, by group.
export const shortcutGroups = (): ReadonlyMap<string, readonly Shortcut[]> => groups;
