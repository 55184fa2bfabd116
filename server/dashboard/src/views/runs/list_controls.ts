import type { Run } from '../../api/types';
import { type Filter, parseFilter } from '../../data/filter';
import { checkedOf, type Child, h, patchChildren, readStored, valueOf, writeStored } from '../../lib/dom';
import { listOf, MAX_RUNS, queryOf } from '../../lib/routes';
import { closeDialog, labelled, showDialog } from '../parts';
import { type Column, COLUMNS, compareValues, type Details } from './columns';

/// The view of the list. Stored in the address; sort order, columns and baseline also in this browser.
export interface ListState {
  text: string; // the search, see parseFilter()
  states: readonly string[]; // none: all
  archived: boolean; // includes archived runs
  group: boolean; // folds runs that differ in their seeds only
  sort: { column: string; descending: boolean };
  columns: readonly string[]; // ids, in order
  pinned: string | null; // the run that others are compared with
}

export const DEFAULT_COLUMNS: readonly string[] = listOf('state,progress,update,loss,sacrebleu,tokens,hosts,started');
const KEY = 'babelring.list';
const HABITS = ['sort', 'cols', 'pin'];

export const defaultListState = (): ListState => ({
  ...{ text: '', states: [], archived: false, group: false, columns: DEFAULT_COLUMNS, pinned: null },
  sort: { column: 'started', descending: true },
});

export function parseListState(query: URLSearchParams): ListState {
  const usual = defaultListState();
  const sort = query.get('sort') ?? '';
  const columns = listOf(query.get('cols'));
  const label = query.get('label'); // of links from before there was label: in the search
  return {
    ...{
      text: [query.get('q'), label && `label:${label}`].filter(Boolean).join(' '),
      states: listOf(query.get('state')),
    },
    ...{ archived: query.get('archived') === '1', group: query.get('group') === '1' },
    sort: sort ? { column: sort.replace(/^-/, ''), descending: sort.startsWith('-') } : usual.sort,
    columns: columns.length > 0 ? columns : usual.columns,
    pinned: query.get('pin'),
  };
}

/// The query with everything that differs from the default.
export function listQuery({ text, states, archived, group, sort, columns, pinned }: ListState): URLSearchParams {
  const usual = defaultListState();
  const order = ({ column, descending }: ListState['sort']): string => `${descending ? '-' : ''}${column}`;
  return queryOf({
    ...{ q: text, state: states.join(), archived: archived && '1', group: group && '1' },
    sort: order(sort) !== order(usual.sort) && order(sort),
    cols: columns.join() !== usual.columns.join() && columns.join(),
    pin: pinned,
  });
}

/// The query to start with: that of the address, or, if it is empty, the one stored in this browser.
export const startingQuery = (query: URLSearchParams): URLSearchParams =>
  query.size > 0 ? query : new URLSearchParams(readStored(KEY) ?? '');

export function keepHabits(query: URLSearchParams): void {
  const kept = new URLSearchParams([...query].filter(([name]) => HABITS.includes(name)));
  writeStored(KEY, kept.toString());
}

const words = (text: string): string[] => text.toLowerCase().split(/\s+/).filter(Boolean);

export function matches(run: Run, state: ListState, filter: Filter, details: Details): boolean {
  if (run.archived && !state.archived) return false;
  if (state.states.length > 0 && !state.states.includes(run.state)) return false;
  return filter.test(run, (each) => details.config(each));
}

/// The filtered and sorted runs. The pinned run comes first and ignores the filters.
export function arrange(
  runs: Iterable<Run>,
  state: ListState,
  sortBy: Column,
  details: Details,
  filter: Filter = parseFilter(state.text),
): Run[] {
  const found = [...runs]
    .filter((run) => run.id === state.pinned || matches(run, state, filter, details))
    .map((run) => ({ run, value: sortBy.value(run, details), first: run.id === state.pinned }));
  found.sort(
    (a, b) =>
      Number(b.first) - Number(a.first) ||
      compareValues(a.value, b.value, state.sort.descending) ||
      (a.run.created_at < b.run.created_at ? 1 : -1),
  );
  return found.map(({ run }) => run);
}

/// Searches to suggest: all labels of the runs.
export function suggestions(runs: Iterable<Run>): string[] {
  const found = new Set<string>();
  for (const run of runs)
    for (const [key, value] of Object.entries(run.labels ?? {})) found.add(`label:${value ? `${key}=${value}` : key}`);
  return [...found].sort();
}

const MAX_OFFERED = 60;
export type Offer = { id: string; title: string };

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
  const wanted = words(text);
  const hit = ({ title }: Offer): boolean => wanted.every((word) => title.toLowerCase().includes(word));
  const byId = new Map(all.map((offer) => [offer.id, offer]));
  const first = chosen.map((id) => byId.get(id) ?? { id, title: id.replace(':', ': ') });
  return [...first, ...all.filter(({ id }) => !chosen.includes(id))].filter(hit);
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
    const others = now.filter((each) => each !== id);
    const toggle = (event: Event): void => set(checkedOf(event) ? [...now, id] : others);
    const move = { 'aria-label': `Move ${title} to the left`, onclick: () => set(movedUp(now, id)) };
    const box = h('input', { type: 'checkbox', checked: now.includes(id), onchange: toggle });
    const mover = now.indexOf(id) > 0 && h('button.chip', move, '←');
    return h('li', { 'data-key': id }, h('label', box, ` ${title}`), mover);
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
  show: (query: string) => void; // shows a saved view
  nameView: () => void; // asks for a name for this view, and keeps it
  saveView: (name: string, query: string | null) => void;
  compare: () => void;
  archive: (archived: boolean) => void;
  label: () => void;
  remove: () => void;
  clear: () => void;
}

/// The newest change of ticked runs; `undo` takes it back.
export type Done = { said: string; undo: (() => void) | null };

export interface ControlFacts {
  count: string;
  selected: number;
  done: Done;
  operate: boolean; // whether to show actions that need scope `operate`
  suggestions: readonly string[];
  problem: string; // what is wrong with the search
  states: readonly string[];
}

const VIEWS = 'babelring.views';

/// The views of the list that this browser keeps: the address's query by name.
export function savedViews(): Map<string, string> {
  try {
    return new Map(Object.entries(JSON.parse(readStored(VIEWS) ?? '{}') as Record<string, string>));
  } catch {
    return new Map();
  }
}

/// Keeps a view under a name; null forgets it.
export function saveView(name: string, query: string | null): void {
  const views = savedViews();
  if (query === null) views.delete(name);
  else views.set(name, query);
  writeStored(VIEWS, JSON.stringify(Object.fromEntries(views)));
}

function viewChips(state: ListState, actions: ControlActions): Child {
  const now = listQuery(state).toString();
  const chip = ([name, query]: readonly [string, string]): Child =>
    h(
      'span.group',
      { 'data-key': name },
      h('button.chip', { 'aria-pressed': String(query === now), onclick: () => actions.show(query) }, name),
      h('button.chip', { 'aria-label': `Forget the view ${name}`, onclick: () => actions.saveView(name, null) }, '×'),
    );
  const save = { title: 'Keep this search, order and choice of columns in this browser', onclick: actions.nameView };
  return [[...savedViews()].map(chip), h('button.chip', save, 'save view …')];
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
  const cut = selected > MAX_RUNS ? `, the first ${MAX_RUNS} are compared` : '';
  const action = (text: string, onclick: () => void): HTMLElement =>
    h('button.chip', { hidden: !operate, onclick }, text);
  return h(
    'div.selection',
    { role: 'group', 'aria-label': 'Ticked runs', hidden: selected === 0 },
    h('span', `${selected} ticked${cut}`),
    h('button.chip.primary', { onclick: actions.compare }, 'compare'),
    action('label …', actions.label),
    action('archive', () => actions.archive(true)),
    action('unarchive', () => actions.archive(false)),
    action('delete …', actions.remove),
    h('button.chip', { onclick: actions.clear }, 'untick all'),
  );
}

/// The controls above the list: search, filters, and actions for ticked runs.
export function listControls(state: ListState, facts: ControlFacts, actions: ControlActions): Child {
  const { change } = actions;
  const search = h('input.wide', {
    ...{ type: 'search', id: 'search', list: 'searches', value: state.text, 'aria-describedby': 'search-problem' },
    placeholder: 'Search (press /): big model  bleu>27  lr>3e-4  label:team=mt  state:failed',
    oninput: (event: Event) => change({ text: valueOf(event) }),
  });
  const archived = h('input', {
    ...{ type: 'checkbox', id: 'archived', checked: state.archived },
    onchange: (event: Event) => change({ archived: checkedOf(event) }),
  });
  const known = facts.suggestions.map((value) => h('option', { value }));
  const group = {
    'aria-pressed': String(state.group),
    title: 'Fold runs that differ in their seeds only: means with standard deviations, named by what differs',
    onclick: () => change({ group: !state.group }),
  };
  const submit = h('a.chip.primary', { href: '#/submit', hidden: !facts.operate }, 'new run');
  const count = h('p.muted.count-line', { role: 'status' }, facts.count);
  return [
    h('div.list-head', h('h1', 'Runs'), count, submit),
    h(
      'div.filters',
      { role: 'search' },
      labelled('Search runs', search, true),
      h('span.group', { role: 'group', 'aria-label': 'States' }, stateChips(state, facts.states, change)),
      h('datalist', { id: 'searches' }, known),
      h('label.tick', archived, ' include archived'),
      h('button.chip', group, 'group by what differs'),
      h('button.chip', { onclick: actions.columns }, 'columns'),
      viewChips(state, actions),
    ),
    h('p.problem', { id: 'search-problem', role: 'status' }, facts.problem),
    selection(facts, actions),
    h(
      'div.done',
      { hidden: facts.done.said === '' },
      h('span', { role: 'status' }, facts.done.said),
      facts.done.undo && h('button.chip', { onclick: facts.done.undo }, 'undo'),
    ),
  ];
}
