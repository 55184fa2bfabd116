import { h, replaceChildren } from '../../lib/dom';
import { COLUMNS } from './columns';
import { DEFAULT_COLUMNS } from './list_state';

const MAX_OFFERED = 60;

export interface Offer {
  id: string;
  title: string;
}

/// All possible columns: the fixed ones, each configuration key, and the last, min and max value of each metric.
export function offers(configPaths: Iterable<string>, metricKeys: Iterable<string>): Offer[] {
  const fixed = COLUMNS.map(({ id, title }) => ({ id, title }));
  const metrics = [...metricKeys].sort().flatMap((key) => [
    { id: `last:${key}`, title: `${key}: last` },
    { id: `min:${key}`, title: `${key}: min, with its update` },
    { id: `max:${key}`, title: `${key}: max, with its update` },
  ]);
  return [
    ...fixed,
    ...metrics,
    ...[...configPaths].sort().map((path) => ({ id: `config:${path}`, title: `configuration: ${path}` })),
  ];
}

/// The columns with all words of the text in their title; chosen columns first, in their order.
export function narrow(all: readonly Offer[], text: string, chosen: readonly string[]): Offer[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const byId = new Map(all.map((offer) => [offer.id, offer]));
  const first = chosen.map((id) => byId.get(id) ?? { id, title: id.replace(':', ': ') });
  const rest = all.filter(
    ({ id, title }) => !chosen.includes(id) && words.every((word) => title.toLowerCase().includes(word)),
  );
  return [...first.filter(({ title }) => words.every((word) => title.toLowerCase().includes(word))), ...rest];
}

function chooserDialog(search: HTMLElement, list: HTMLElement, reset: () => void): HTMLDialogElement {
  const dialog = h(
    'dialog',
    { class: 'chooser', 'aria-labelledby': 'columns-title' },
    h(
      'div',
      { class: 'dialog-head' },
      h('h2', { id: 'columns-title' }, 'Columns'),
      h('button', { type: 'button', class: 'chip', onclick: reset }, 'default'),
      h('button', { type: 'button', class: 'chip', onclick: () => dialog.close() }, 'close'),
    ),
    h('label', { for: 'column-search', class: 'visually-hidden' }, 'Find a column'),
    search,
    list,
  );
  dialog.addEventListener('close', () => dialog.remove());
  return dialog;
}

/// `id` one place further to the front.
function movedUp(columns: readonly string[], id: string): string[] {
  const order = columns.filter((each) => each !== id);
  order.splice(Math.max(0, columns.indexOf(id) - 1), 0, id);
  return order;
}

function choice(
  { id, title }: Offer,
  now: readonly string[],
  set: (columns: string[]) => void,
  move: (id: string) => void,
): HTMLElement {
  const box = h('input', {
    type: 'checkbox',
    onchange: () => set(box.checked ? [...now, id] : now.filter((each) => each !== id)),
  });
  box.checked = now.includes(id);
  return h(
    'li',
    {},
    h('label', {}, box, ` ${title}`),
    now.indexOf(id) > 0
      ? h(
          'button',
          {
            type: 'button',
            class: 'chip',
            'data-move': id,
            'aria-label': `Move ${title} to the left`,
            onclick: () => move(id),
          },
          '←',
        )
      : null,
  );
}

/// A dialog to search, choose and reorder columns.
export function chooseColumns(
  all: readonly Offer[],
  chosen: readonly string[],
  onChange: (columns: readonly string[]) => void,
): void {
  let now = [...chosen];
  const search = h('input', {
    type: 'search',
    id: 'column-search',
    placeholder: 'Find a column, metric or configuration key',
    oninput: () => draw(),
  });
  const list = h('ul', { class: 'choices' });
  const set = (columns: string[]): void => {
    now = columns;
    onChange(now);
    draw();
  };
  const move = (id: string): void => {
    set(movedUp(now, id));
    list.querySelector<HTMLElement>(`[data-move="${CSS.escape(id)}"]`)?.focus();
  };
  const draw = (): void => {
    const found = narrow(all, search.value, now);
    const focused = document.activeElement?.closest('li')?.textContent;
    replaceChildren(
      list,
      found.slice(0, MAX_OFFERED).map((offer) => choice(offer, now, set, move)),
      found.length > MAX_OFFERED
        ? h('li', { class: 'muted' }, `and ${found.length - MAX_OFFERED} more: narrow the search`)
        : null,
    );
    if (focused)
      [...list.children]
        .find((child) => child.textContent === focused)
        ?.querySelector('input')
        ?.focus();
  };
  const dialog = chooserDialog(search, list, () => set([...DEFAULT_COLUMNS]));
  draw();
  document.body.append(dialog);
  dialog.showModal();
  search.focus();
}
