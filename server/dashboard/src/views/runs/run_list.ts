import '../../styles/list.css';
import { explain, getTagged, sendJson } from '../../api/client';
import { may } from '../../api/session';
import type { Run } from '../../api/types';
import { RunDetails, RunIndex } from '../../data/run_index';
import { checkedOf, type Child, h, instead, patchChildren, replaceChildren, setText } from '../../lib/dom';
import { formatCount } from '../../lib/format';
import { hashOf, hashOfRun, writeAddress } from '../../lib/routes';
import { staleForMs } from '../../data/runs';
import { Life } from '../../lib/work';
import type { Page, Place } from '../parts';
import { addShortcuts } from '../site_header';
import { type Column, columnOf, type Details, difference, NAME } from './columns';
import * as list from './list_controls';
import type { ListState } from './list_controls';

type RowActions = { select: (id: string, on: boolean) => void; pin: (id: string) => void };

/// One run in the table. Reuses its elements, so that focus and selection survive updates.
class RowView {
  readonly element = h('tr');
  private mark = ''; // key of the shown state

  constructor(
    readonly id: string,
    private readonly actions: RowActions,
  ) {}

  /// Changes the page only if the shown state has changed.
  update(
    run: Run,
    columns: readonly Column[],
    details: Details,
    atMs: number,
    { selected, pinned }: { selected: boolean; pinned: Run | null },
  ): void {
    const silentMs = staleForMs(run, atMs, Date.now());
    const values = columns.map((column) => [
      column.id,
      column.value(run, details),
      column.known?.(run, details),
      pinned && column.value(pinned, details),
    ]);
    const silence = silentMs && Math.floor(silentMs / 1000);
    const mark = JSON.stringify([run.name, selected, pinned?.id, run.archived, run.emulated, silence, values]);
    if (mark === this.mark) return;
    this.mark = mark;
    const isPinned = pinned?.id === this.id;
    const cell = (column: Column): HTMLElement => {
      const other = isPinned ? null : pinned;
      const off = other && difference(column, column.value(run, details), column.value(other, details));
      const kind = off?.good === null ? '' : off?.good ? 'good' : 'bad';
      const shown = column.cell(run, details, atMs);
      const mark = off && h('small', { class: `off ${kind}` }, off.text);
      return h('td', { class: column.number && 'number' }, shown, mark);
    };
    this.element.classList.toggle('pinned', isPinned);
    patchChildren(this.element, this.head(run, selected, isPinned), columns.map(cell));
  }

  private head(run: Run, selected: boolean, isPinned: boolean): Child {
    const { id, actions } = this;
    const name = run.name || run.id;
    const onchange = (event: Event): void => actions.select(id, checkedOf(event));
    const box = h('input', { type: 'checkbox', checked: selected, 'aria-label': `Compare ${name}`, onchange });
    const pin = {
      'aria-pressed': String(isPinned),
      'aria-label': `Pin ${name} as the baseline`,
      title: isPinned ? 'Baseline: other runs show their difference to this run' : 'Pin as the baseline',
      onclick: () => actions.pin(id),
    };
    return [
      h('td.tools', box, h('button.pin', pin, isPinned ? '★' : '☆')),
      h(
        'th',
        { scope: 'row' },
        h('a.run-name', { href: hashOfRun(id) }, name),
        ' ',
        h('span.label', { hidden: run.archived !== true }, 'archived'),
        h('span.label', { hidden: run.emulated !== true }, 'emulated'),
      ),
    ];
  }
}

const ROWS_AT_ONCE = 100;
const AGES_MS = 1000;

/// The list of runs with search, sorting, filters, configurable columns and a pinned baseline. Updated in place.
class RunList extends Life {
  private state: ListState;
  private readonly say: (text: string) => void;
  private readonly index: RunIndex;
  private readonly details = new RunDetails(() => this.draw());
  private readonly rows = new Map<string, RowView>();
  private readonly selected = new Set<string>();
  private shown = ROWS_AT_ONCE;
  private order: Run[] = [];
  private readonly controls = h('div.list-controls');
  private readonly heads = h('tr');
  private readonly body = h('tbody');
  private readonly empty = h('p.muted.empty');
  private readonly more = h('button.chip', { onclick: () => this.showMore() });
  private readonly draw = this.onFrame(() => this.drawNow());
  private readonly actions: list.ControlActions = {
    change: (part) => this.change(part),
    columns: () => this.chooseColumns(),
    compare: () => this.compare(),
    archive: (archived) => void this.archive(archived),
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
    const tick = (): void => this.onFocused((id) => this.select(id, !this.selected.has(id)));
    return addShortcuts('List of runs', [
      { keys: ['/'], what: 'search', run: search },
      { keys: ['j', 'ArrowDown'], what: 'next run', run: step(1) },
      { keys: ['k', 'ArrowUp'], what: 'previous run', run: step(-1) },
      { keys: ['Enter'], what: 'open the run' },
      { keys: ['x'], what: 'tick the run for a comparison', run: tick },
      { keys: ['p'], what: 'pin the run as the baseline', run: () => this.onFocused((id) => this.pin(id)) },
      { keys: ['c'], what: 'compare the ticked runs', run: () => this.compare() },
    ]);
  }

  private focusedAt(): number {
    const id = [...this.rows.values()].find(({ element }) => element.contains(document.activeElement))?.id;
    return this.order.findIndex((run) => run.id === id);
  }

  private onFocused(work: (id: string) => void): void {
    const run = this.order[this.focusedAt()];
    if (run) work(run.id);
  }

  private moveFocus(event: KeyboardEvent, by: number): void {
    const at = this.focusedAt();
    if (event.key.startsWith('Arrow') && at < 0) return; // arrows scroll until a run has the focus
    event.preventDefault();
    const next = Math.min(Math.max(at < 0 ? 0 : at + by, 0), this.order.length - 1);
    while (next >= this.shown) this.shown += ROWS_AT_ONCE;
    this.drawNow();
    const run = this.order[next];
    if (run) this.rows.get(run.id)?.element.querySelector('a')?.focus();
  }

  private change(part: Partial<ListState>): void {
    this.state = { ...this.state, ...part };
    if (part.text !== undefined || part.states || part.label !== undefined) this.shown = ROWS_AT_ONCE;
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

  private drawNow(): void {
    const { runs, atMs } = this.index;
    const columns = this.columns();
    this.order = list.arrange(runs.values(), this.state, columnOf(this.state.sort.column) ?? NAME, this.details);
    const visible = this.order.slice(0, this.shown);
    const pinned = runs.get(this.state.pinned ?? '') ?? null;
    const focused = document.activeElement;
    const actions: RowActions = { select: (id, on) => this.select(id, on), pin: (id) => this.pin(id) };
    visible.forEach((run, at) => {
      const row = this.rows.get(run.id) ?? new RowView(run.id, actions);
      this.rows.set(run.id, row);
      row.update(run, columns, this.details, atMs, { selected: this.selected.has(run.id), pinned });
      if (this.body.children[at] !== row.element) this.body.insertBefore(row.element, this.body.children[at] ?? null);
    });
    const kept = new Set(visible.map(({ id }) => id));
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
    const left = this.order.length - this.shown;
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
      labels: list.allLabels(runs.values()),
      states: [...new Set([...runs.values()].map(({ state }) => state))].sort(),
    };
    patchChildren(this.controls, list.listControls(this.state, facts, this.actions));
  }

  private showMore(): void {
    if (this.shown >= this.order.length) return;
    this.shown += ROWS_AT_ONCE;
    this.draw();
  }

  private select(id: string, on: boolean): void {
    if (on) this.selected.add(id);
    else this.selected.delete(id);
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

  private async archive(archived: boolean): Promise<void> {
    const ids = [...this.selected];
    try {
      for (const id of ids) {
        const { etag } = await getTagged<Run>(`/runs/${id}`);
        const run = await sendJson<Run>('PATCH', `/runs/${id}`, { archived }, { ifMatch: etag });
        this.index.take({ ...this.index.runs.get(id)!, ...run, archived });
        this.selected.delete(id);
      }
      this.say(`${formatCount(ids.length)} ${archived ? 'archived' : 'unarchived'}.`);
    } catch (error) {
      this.say(`Not archived: ${explain(error)}`);
    }
    this.drawNow();
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
