import '../../styles/list.css';
import { may } from '../../api/session';
import type { Run } from '../../api/types';
import { type Filter, parseFilter } from '../../data/filter';
import { type Group, groupsOf, settingsOf } from '../../data/choice';
import { RunDetails, RunIndex } from '../../data/run_index';
import { h, instead, patchChildren, replaceChildren, setText } from '../../lib/dom';
import { formatCount } from '../../lib/format';
import { hashOf, writeAddress } from '../../lib/routes';
import { Life } from '../../lib/work';
import type { Page, Place } from '../parts';
import { addShortcuts } from '../site_header';
import { type Column, columnOf, NAME } from './columns';
import * as list from './list_controls';
import type { ListState } from './list_controls';
import type { Outcome } from './bulk';
import { GroupRow, RunRow } from './rows';

type BulkFile = typeof import('./bulk');

const ROWS_AT_ONCE = 100;
const AGES_MS = 1000;

/// The list of runs with search, sorting, filters, configurable columns and a pinned baseline. Updated in place.
class RunList extends Life {
  private state: ListState;
  private readonly say: (text: string) => void;
  private readonly index: RunIndex;
  private readonly details = new RunDetails(() => this.draw());
  private readonly rows = new Map<string, RunRow | GroupRow>();
  private readonly selected = new Set<string>();
  private done: list.Done = { said: '', undo: null }; // the newest change of ticked runs
  private shown = ROWS_AT_ONCE;
  private order: Run[] = [];
  private entries: readonly (Run | Group)[] = []; // the rows: runs, or groups of them
  private filter: Filter = parseFilter('');
  private filtered = ''; // the text and labels that `filter` was parsed from
  private readonly controls = h('div.list-controls');
  private readonly heads = h('tr');
  private readonly body = h('tbody');
  private readonly empty = h('p.muted.empty');
  private readonly more = h('button.chip', { onclick: () => this.showMore() });
  private readonly draw = this.onFrame(() => this.drawNow());
  private readonly actions: list.ControlActions = {
    change: (part) => this.change(part),
    columns: () => this.chooseColumns(),
    show: (query) => this.change(list.parseListState(new URLSearchParams(query))),
    nameView: () => void this.nameView(),
    saveView: (name, query) => {
      list.saveView(name, query);
      this.drawNow();
    },
    compare: () => this.compare(),
    archive: (archived) => void this.bulk(({ archiveAll }, runs) => archiveAll(runs, archived)),
    label: () => void this.bulk(({ labelAll }, runs) => labelAll(runs)),
    remove: () => void this.bulk(({ deleteAll }, runs) => deleteAll(runs)),
    clear: () => {
      this.selected.clear();
      this.drawNow();
    },
  };

  constructor({ root, status, say }: Place, query: URLSearchParams) {
    super();
    document.title = 'Runs · Babelring';
    status('loading', 'loading');
    this.say = say;
    this.state = list.parseListState(list.startingQuery(query));
    const region = { tabindex: 0, role: 'region', 'aria-label': 'Runs' };
    const table = h('table.runs', h('thead', this.heads), this.body);
    replaceChildren(root, this.controls, h('div.table-box.runs-box.card', region, table, this.empty, this.more));
    this.index = new RunIndex(this.draw, (state) => status(state, state));
    this.drawHeads();
    this.drawRest();
    this.whenNear(this.more, 0, (near) => near && this.showMore());
    this.every(AGES_MS, this.draw);
    window.addEventListener('scopechange', this.draw);
    this.atEnd(
      this.addKeys(),
      () => this.index.close(),
      () => window.removeEventListener('scopechange', this.draw),
      () => root.replaceChildren(),
    );
  }

  private addKeys(): () => void {
    const step = (by: number) => (event: KeyboardEvent) => this.moveFocus(event, by);
    const search = instead(() => {
      const field = this.controls.querySelector<HTMLInputElement>('#search');
      field?.focus();
      field?.select();
    });
    const tick = (): void => this.onFocused((ids) => this.select(ids, !ids.every((id) => this.selected.has(id))));
    return addShortcuts('List of runs', [
      { keys: ['/'], what: 'search', run: search },
      { keys: ['j', 'ArrowDown'], what: 'next run', run: step(1) },
      { keys: ['k', 'ArrowUp'], what: 'previous run', run: step(-1) },
      { keys: ['Enter'], what: 'open the run' },
      { keys: ['x'], what: 'tick the run for a comparison', run: tick },
      { keys: ['p'], what: 'pin the run as the baseline', run: () => this.onFocused(([id]) => this.pin(id!)) },
      { keys: ['c'], what: 'compare the ticked runs', run: () => this.compare() },
    ]);
  }

  private focusedAt(): number {
    return [...this.body.children].findIndex((row) => row.contains(document.activeElement));
  }

  private onFocused(work: (ids: readonly string[]) => void): void {
    const entry = this.entries[this.focusedAt()];
    if (entry) work('runs' in entry ? entry.runs.map(({ id }) => id) : [entry.id]);
  }

  private moveFocus(event: KeyboardEvent, by: number): void {
    const at = this.focusedAt();
    if (event.key.startsWith('Arrow') && at < 0) return; // arrows scroll until a run has the focus
    event.preventDefault();
    const next = Math.min(Math.max(at < 0 ? 0 : at + by, 0), this.entries.length - 1);
    while (next >= this.shown) this.shown += ROWS_AT_ONCE;
    this.drawNow();
    this.body.children[next]?.querySelector('a')?.focus();
  }

  private change(part: Partial<ListState>): void {
    this.state = { ...this.state, ...part };
    if (part.text !== undefined || part.states) this.shown = ROWS_AT_ONCE;
    const query = list.listQuery(this.state);
    list.keepHabits(query);
    writeAddress(hashOf('runs', query));
    if (part.columns || part.sort) this.drawHeads();
    this.drawNow();
  }

  private columns(): Column[] {
    return this.state.columns.map(columnOf).filter((column) => column !== null);
  }

  private drawHeads(): void {
    const { sort } = this.state;
    const headOf = (column: Column): HTMLElement => {
      const order = column.id === sort.column ? (sort.descending ? 'descending' : 'ascending') : null;
      const button = h('button.sort', { onclick: () => this.sortBy(column) }, column.title);
      const kind = column.number && 'number';
      return h('th', { scope: 'col', 'data-key': column.id, class: kind, 'aria-sort': order }, button);
    };
    const tools = h('td.tools', h('span.visually-hidden', 'Tick and pin'));
    patchChildren(this.heads, tools, [NAME, ...this.columns()].map(headOf));
  }

  private sortBy(column: Column): void {
    const { sort } = this.state;
    const descending = sort.column === column.id ? !sort.descending : column.number && column.better !== 'less';
    this.change({ sort: { column: column.id, descending } });
  }

  /// Parses the search anew if it or the labels, which are names in it, have changed.
  private parse(): void {
    const keys = new Set([...this.index.runs.values()].flatMap(({ labels }) => Object.keys(labels ?? {})));
    const from = JSON.stringify([this.state.text, ...keys]);
    if (from === this.filtered) return;
    this.filtered = from;
    this.filter = parseFilter(this.state.text, keys);
  }

  /// The groups of the listed runs by what differs. Runs whose configurations are not here yet stand alone.
  private grouped(): (Run | Group)[] {
    const known = this.order.flatMap((run) => {
      const config = this.details.config(run);
      return config ? [{ run, settings: settingsOf(run, config) }] : [];
    });
    const all = groupsOf(known, true);
    const first = new Map(all.map((group) => [group.runs[0]!.id, group]));
    const folded = new Set(all.flatMap(({ runs }) => runs.slice(1)));
    return this.order.flatMap((run): (Run | Group)[] => {
      const group = first.get(run.id);
      if (folded.has(run)) return [];
      return [group && group.runs.length > 1 ? group : run];
    });
  }

  private rowOf(entry: Run | Group): RunRow | GroupRow {
    const actions = {
      select: (ids: readonly string[], on: boolean) => this.select(ids, on),
      pin: (id: string) => this.pin(id),
    };
    const key = 'runs' in entry ? entry.key : entry.id;
    const row = this.rows.get(key) ?? ('runs' in entry ? new GroupRow(key, actions) : new RunRow(key, actions));
    this.rows.set(key, row);
    return row;
  }

  private drawNow(): void {
    const { runs, atMs } = this.index;
    this.parse();
    const sortBy = columnOf(this.state.sort.column) ?? NAME;
    this.order = list.arrange(runs.values(), this.state, sortBy, this.details, this.filter);
    this.entries = this.state.group ? this.grouped() : this.order;
    const pinned = runs.get(this.state.pinned ?? '') ?? null;
    const context = { columns: this.columns(), details: this.details, atMs, selected: this.selected, pinned };
    const focused = document.activeElement;
    const visible = this.entries.slice(0, this.shown).map((entry, at) => {
      const row = this.rowOf(entry);
      row.update(entry as Run & Group, context);
      if (this.body.children[at] !== row.element) this.body.insertBefore(row.element, this.body.children[at] ?? null);
      return row.id;
    });
    const kept = new Set(visible);
    for (const [id, row] of this.rows) {
      if (kept.has(id)) continue;
      row.element.remove();
      this.rows.delete(id);
    }
    if (focused instanceof HTMLElement && focused !== document.activeElement && this.body.contains(focused))
      focused.focus({ preventScroll: true });
    this.drawRest();
  }

  private drawRest(): void {
    const { runs, complete, cut } = this.index;
    const left = this.entries.length - this.shown;
    this.more.hidden = left <= 0;
    setText(this.more, `show ${Math.min(left, ROWS_AT_ONCE)} more of ${formatCount(left)}`);
    this.empty.hidden = this.order.length > 0;
    const none = complete ? 'No runs yet: start one with mpirun, or submit one here.' : 'Loading …';
    setText(this.empty, runs.size > 0 ? 'No run matches.' : none);
    const more = cut ? ' (the newest)' : complete ? '' : ', loading more';
    const facts = {
      count: runs.size > 0 ? `${formatCount(this.order.length)} of ${formatCount(runs.size)}${more}` : '',
      selected: this.selected.size,
      operate: may('operate'),
      done: this.done,
      suggestions: list.suggestions(runs.values()),
      problem: this.filter.problem,
      states: [...new Set([...runs.values()].map(({ state }) => state))].sort(),
    };
    patchChildren(this.controls, list.listControls(this.state, facts, this.actions));
  }

  private showMore(): void {
    if (this.shown >= this.entries.length) return;
    this.shown += ROWS_AT_ONCE;
    this.draw();
  }

  private select(ids: readonly string[], on: boolean): void {
    for (const id of ids) {
      if (on) this.selected.add(id);
      else this.selected.delete(id);
    }
    this.drawNow();
  }

  private pin(id: string): void {
    this.change({ pinned: this.state.pinned === id ? null : id });
  }

  private compare(): void {
    const ids = this.order.map(({ id }) => id).filter((id) => this.selected.has(id));
    const { pinned } = this.state;
    if (pinned && ids.length > 0 && !ids.includes(pinned)) ids.unshift(pinned);
    if (ids.length > 0) location.hash = hashOf('compare', new URLSearchParams({ runs: ids.join(',') }));
    else this.say('Tick the runs to compare first.');
  }

  /// Changes the ticked runs by one of the actions for several, and offers to take it back.
  private async bulk(act: (file: BulkFile, runs: readonly Run[]) => Promise<Outcome | null>): Promise<void> {
    const runs = [...this.selected].flatMap((id) => this.index.runs.get(id) ?? []);
    const outcome = await act(await import('./bulk'), runs);
    if (outcome) this.take(outcome);
  }

  private take({ said, runs, undo }: Outcome): void {
    for (const run of runs) {
      this.index.take({ ...this.index.runs.get(run.id), ...run });
      this.selected.delete(run.id);
    }
    this.done = { said, undo: undo && (() => void undo().then((outcome) => this.take(outcome))) };
    this.drawNow();
  }

  private async nameView(): Promise<void> {
    const { ask } = await import('../run_ask');
    const name = h('input', { type: 'text', name: 'name', required: true, maxlength: 40, autocomplete: 'off' });
    const form = await ask({ title: 'Save this view', confirm: 'Save', fields: h('label.field', 'name ', name) });
    if (form) this.actions.saveView(String(form.get('name')).trim(), list.listQuery(this.state).toString());
  }

  /// Offers the configuration and metric keys of the first eight runs, after fetching their details.
  private chooseColumns(): void {
    const some = this.order.slice(0, 8);
    const collect = <T>(get: (run: Run) => ReadonlyMap<string, T> | null): Set<string> =>
      new Set(some.flatMap((run) => [...(get(run)?.keys() ?? [])]));
    const keys = (): [Set<string>, Set<string>] => [
      collect((run) => this.details.config(run)),
      collect((run) => this.details.metrics(run)),
    ];
    keys();
    const choose = (): void =>
      list.chooseColumns(list.offers(...keys()), this.state.columns, (columns) => this.change({ columns }));
    void this.details.settled().then(this.open(choose));
  }
}

export const open = (place: Place, { query }: { query: URLSearchParams }): Page => new RunList(place, query);
