import '../styles/help.css';
import { h, replaceChildren } from '../lib/dom';
import { shortcutGroups } from '../lib/keys';

const NAMES: Record<string, string> = { ArrowLeft: '←', ArrowRight: '→', ArrowUp: '↑', ArrowDown: '↓', ' ': 'space' };

/// Shows all keyboard shortcuts of the current page, by group.
export function showHelp(): void {
  const dialog = h('dialog', { class: 'help', 'aria-labelledby': 'help-title' });
  const close = (): void => dialog.close();
  replaceChildren(
    dialog,
    h(
      'div',
      { class: 'dialog-head' },
      h('h2', { id: 'help-title' }, 'Keyboard shortcuts'),
      h('button', { type: 'button', class: 'chip', onclick: close }, 'close'),
    ),
    [...shortcutGroups()].map(([title, shortcuts]) => [
      h('h3', {}, title),
      h(
        'dl',
        { class: 'keys' },
        shortcuts.map(({ keys, what }) => [
          h(
            'dt',
            {},
            keys.map((key, at) => [at > 0 ? ' or ' : null, h('kbd', {}, NAMES[key] ?? key)]),
          ),
          h('dd', {}, what),
        ]),
      ),
    ]),
  );
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
