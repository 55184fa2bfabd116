import { h, type Child } from '../lib/dom';

/// A highlighted word after a value. The space separates them for screen readers.
export const badge = (text: string): Child => [' ', h('span', { class: 'best' }, text)];

/// A table that scrolls sideways inside its own box. A heading with a leading # marks a numeric column. `keys` identify the rows if
/// new ones are inserted before others.
export function table(
  label: string,
  heads: readonly string[],
  rows: readonly (readonly Child[])[],
  keys: readonly string[] = [],
): HTMLElement {
  const kind = heads.map((head) => (head.startsWith('#') ? 'number' : null));
  return h(
    'div',
    { class: 'table-box', tabindex: 0, role: 'region', 'aria-label': label },
    h(
      'table',
      {},
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          heads.map((head, at) => h('th', { scope: 'col', class: kind[at]! }, head.replace('#', ''))),
        ),
      ),
      h(
        'tbody',
        {},
        rows.length > 0
          ? rows.map((row, which) =>
              h(
                'tr',
                { 'data-key': keys[which] },
                row.map((cell, at) => h('td', { class: kind[at]! }, cell)),
              ),
            )
          : h('tr', {}, h('td', { colspan: heads.length, class: 'muted' }, 'none yet')),
      ),
    ),
  );
}
