import { type Child, h, patchChildren, valueOf } from '../../lib/dom';
import { MAX_COMPARED } from '../../lib/routes';
import { closeDialog, labelled, showDialog } from '../parts';
import { COLUMNS } from './columns';
import { DEFAULT_COLUMNS, type ListState } from './list_state';

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

/// `id` one place further to the front.
function movedUp(columns: readonly string[], id: string): string[] {
  const order = columns.filter((each) => each !== id);
  order.splice(Math.max(0, columns.indexOf(id) - 1), 0, id);
  return order;
}

/// A dialog to search, choose and reorder columns.
export function chooseColumns(
  all: readonly Offer[],
  chosen: readonly string[],
  onChange: (columns: readonly string[]) => void,
): void {
  let now = [...chosen];
  let wanted = '';
  const list = h('ul.choices');
  const set = (columns: string[]): void => {
    now = columns;
    onChange(now);
    draw();
  };
  const item = ({ id, title }: Offer): HTMLElement => {
    const toggle = (event: Event): void => {
      const { checked } = event.currentTarget as HTMLInputElement;
      set(checked ? [...now, id] : now.filter((each) => each !== id));
    };
    const move = { 'aria-label': `Move ${title} to the left`, onclick: () => set(movedUp(now, id)) };
    const box = h('input', { type: 'checkbox', checked: now.includes(id), onchange: toggle });
    return h(
      'li',
      { 'data-key': id },
      h('label', box, ` ${title}`),
      now.indexOf(id) > 0 && h('button.chip', move, '←'),
    );
  };
  const draw = (): void => {
    const found = narrow(all, wanted, now);
    const more = found.length - MAX_OFFERED;
    const note = more > 0 && h('li.muted', `and ${more} more: narrow the search`);
    const focused = document.activeElement;
    patchChildren(list, found.slice(0, MAX_OFFERED).map(item), note);
    if (focused instanceof HTMLElement && list.contains(focused)) focused.focus();
  };
  const find = (event: Event): void => {
    wanted = valueOf(event);
    draw();
  };
  const placeholder = 'Find a column, metric or configuration key';
  const search = h('input', { type: 'search', id: 'column-search', placeholder, oninput: find });
  const head = h(
    'div.dialog-head',
    h('h2', { id: 'columns-title' }, 'Columns'),
    h('button.chip', { onclick: () => set([...DEFAULT_COLUMNS]) }, 'default'),
    h('button.chip', { onclick: closeDialog }, 'close'),
  );
  draw();
  showDialog('dialog.chooser', 'columns-title', [head, labelled('Find a column', search, true), list]);
  search.focus();
}

export interface ControlActions {
  change: (part: Partial<ListState>) => void;
  columns: () => void;
  compare: () => void;
  archive: (archived: boolean) => void;
  clear: () => void;
}

export interface ControlFacts {
  count: string;
  selected: number;
  operate: boolean; // whether to show actions that need scope `operate`
  labels: readonly string[];
  states: readonly string[];
}

function stateChips(state: ListState, known: readonly string[], change: ControlActions['change']): Child {
  const names = [...new Set([...known, ...state.states])];
  if (names.length < 2 && state.states.length === 0) return null;
  return names.map((name) => {
    const on = state.states.includes(name);
    const toggle = (): void =>
      change({ states: on ? state.states.filter((each) => each !== name) : [...state.states, name] });
    return h('button.chip', { 'data-state': name, 'aria-pressed': String(on), onclick: toggle }, name);
  });
}

function selection({ selected, operate }: ControlFacts, actions: ControlActions): HTMLElement {
  const cut = selected > MAX_COMPARED ? `, the first ${MAX_COMPARED} are compared` : '';
  const archive = (archived: boolean, text: string): HTMLElement =>
    h('button.chip', { hidden: !operate, onclick: () => actions.archive(archived) }, text);
  return h(
    'div.selection',
    { role: 'group', 'aria-label': 'Ticked runs', hidden: selected === 0 },
    h('span', `${selected} ticked${cut}`),
    h('button.chip.primary', { onclick: actions.compare }, 'compare'),
    archive(true, 'archive'),
    archive(false, 'unarchive'),
    h('button.chip', { onclick: actions.clear }, 'untick all'),
  );
}

/// The controls above the list: search, filters, and actions for ticked runs.
export function listControls(state: ListState, facts: ControlFacts, actions: ControlActions): Child {
  const { change } = actions;
  const search = h('input', {
    ...{ type: 'search', id: 'search', placeholder: 'Search runs (press /)', value: state.text },
    oninput: (event: Event) => change({ text: valueOf(event) }),
  });
  const label = h('input.narrow', {
    ...{ type: 'search', id: 'label', list: 'labels', placeholder: 'label=value', value: state.label },
    hidden: facts.labels.length === 0 && state.label === '',
    oninput: (event: Event) => change({ label: valueOf(event).trim() }),
  });
  const archived = h('input', {
    ...{ type: 'checkbox', id: 'archived', checked: state.archived },
    onchange: (event: Event) => change({ archived: (event.currentTarget as HTMLInputElement).checked }),
  });
  const submit = h('a.chip.primary', { href: '#/submit', hidden: !facts.operate }, 'new run');
  const count = h('p.muted.count-line', { role: 'status' }, facts.count);
  return [
    h('div.list-head', h('h1', 'Runs'), count, submit),
    h(
      'div.filters',
      { role: 'search' },
      labelled('Search runs', search, true),
      h('span.group', { role: 'group', 'aria-label': 'States' }, stateChips(state, facts.states, change)),
      labelled('Label', label, true),
      h(
        'datalist',
        { id: 'labels' },
        facts.labels.map((value) => h('option', { value })),
      ),
      h('label.tick', archived, ' include archived'),
      h('button.chip', { onclick: actions.columns }, 'columns'),
    ),
    selection(facts, actions),
  ];
}
