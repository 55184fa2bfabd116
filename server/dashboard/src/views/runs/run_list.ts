import '../../styles/list.css';
import { explain, getTagged, sendJson } from '../../api/client';
import { may } from '../../api/session';
import type { Run } from '../../api/types';
import { RunDetails } from '../../data/run_details';
import { RunIndex } from '../../data/run_index';
import { h, oncePerFrame, replaceChildren, setText } from '../../lib/dom';
import { formatCount } from '../../lib/format';
import { addShortcuts } from '../../lib/keys';
import { hashOf } from '../../lib/routes';
import type { Page, Status } from '../page';
import { chooseColumns, offers } from './column_chooser';
import { columnOf, NAME, type Column } from './columns';
import { allLabels, arrange } from './filter';
import { ListControls } from './list_controls';
import { keepHabits, listQuery, parseListState, startingQuery, type ListState } from './list_state';
import { RowView } from './row_view';

const ROWS_AT_ONCE = 100;
const AGES_MS = 1000;

/// The list of runs with search, sorting, filters, configurable columns and a pinned baseline. Updated in place.
export class RunList implements Page {
  private state: ListState;
  private readonly index: RunIndex;
  private readonly details = new RunDetails(() => this.draw());
  private readonly rows = new Map<string, RowView>();
  private readonly selected = new Set<string>();
  private shown = ROWS_AT_ONCE;
  private order: Run[] = [];
  private readonly controls: ListControls;
  private readonly heads = h('tr');
  private readonly body = h('tbody');
  private readonly empty = h('p', { class: 'muted empty' });
  private readonly more = h('button', { type: 'button', class: 'chip', onclick: () => this.showMore() });
  private readonly observer = new IntersectionObserver((entries) => {
    if (entries.some(({ isIntersecting }) => isIntersecting)) this.showMore();
  });
  private readonly timer: ReturnType<typeof setInterval>;
  private readonly stopKeys: () => void;
  private readonly draw = oncePerFrame(() => this.drawNow());
  private closed = false;

  constructor(
    private readonly root: HTMLElement,
    query: URLSearchParams,
    private readonly status: Status,
    private readonly say: (text: string) => void,
  ) {
    document.title = 'Runs · Babelring';
    this.state = parseListState(startingQuery(query));
    this.controls = new ListControls(this.state, {
      change: (part) => this.change(part),
      columns: () => this.chooseColumns(),
      compare: () => this.compare(),
      archive: (archived) => void this.archive(archived),
      clear: () => this.clearSelection(),
    });
    replaceChildren(
      root,
      this.controls.element,
      h(
        'div',
        { class: 'table-box runs-box card', tabindex: 0, role: 'region', 'aria-label': 'Runs' },
        h('table', { class: 'runs' }, h('thead', {}, this.heads), this.body),
        this.empty,
        this.more,
      ),
    );
    this.observer.observe(this.more);
    this.stopKeys = this.addKeys();
    status('loading', 'loading');
    this.drawHeads();
    this.index = new RunIndex(
      () => this.draw(),
      (state) => this.status(state, state),
    );
    this.timer = setInterval(() => this.draw(), AGES_MS);
    window.addEventListener('scopechange', this.draw);
  }

  close(): void {
    this.closed = true;
    this.index.close();
    clearInterval(this.timer);
    this.observer.disconnect();
    this.stopKeys();
    window.removeEventListener('scopechange', this.draw);
    this.root.replaceChildren();
  }

  private addKeys(): () => void {
    const step =
      (by: number) =>
      (event: KeyboardEvent): void =>
        this.moveFocus(event, by);
    return addShortcuts('List of runs', [
      {
        keys: ['/'],
        what: 'search',
        run: (event) => {
          event.preventDefault();
          this.controls.focusSearch();
        },
      },
      { keys: ['j', 'ArrowDown'], what: 'next run', run: step(1) },
      { keys: ['k', 'ArrowUp'], what: 'previous run', run: step(-1) },
      { keys: ['Enter'], what: 'open the run' },
      {
        keys: ['x'],
        what: 'tick the run for a comparison',
        run: () => this.onFocused((id) => this.select(id, !this.selected.has(id))),
      },
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
    if (run) this.rows.get(run.id)?.link.focus();
  }

  private change(part: Partial<ListState>): void {
    this.state = { ...this.state, ...part };
    if (part.text !== undefined || part.states || part.label !== undefined) this.shown = ROWS_AT_ONCE;
    const query = listQuery(this.state);
    keepHabits(query);
    history.replaceState(null, '', hashOf('runs', query));
    if (part.columns || part.sort) this.drawHeads();
    this.drawNow();
  }

  private columns(): Column[] {
    return this.state.columns.map(columnOf).filter((column) => column !== null);
  }

  private drawHeads(): void {
    const focused = this.heads.contains(document.activeElement)
      ? (document.activeElement as HTMLElement).dataset['column']
      : null;
    replaceChildren(
      this.heads,
      h('td', { class: 'tools' }, h('span', { class: 'visually-hidden' }, 'Tick and pin')),
      [NAME, ...this.columns()].map((column) => {
        const { sort } = this.state;
        const order = column.id !== sort.column ? null : sort.descending ? 'descending' : 'ascending';
        return h(
          'th',
          { scope: 'col', class: column.number ? 'number' : null, 'aria-sort': order },
          h(
            'button',
            { type: 'button', class: 'sort', 'data-column': column.id, onclick: () => this.sortBy(column) },
            column.title,
          ),
        );
      }),
    );
    if (focused) this.heads.querySelector<HTMLElement>(`[data-column="${CSS.escape(focused)}"]`)?.focus();
  }

  private sortBy(column: Column): void {
    const { sort } = this.state;
    const descending = sort.column === column.id ? !sort.descending : column.number && column.better !== 'less';
    this.change({ sort: { column: column.id, descending } });
  }

  private drawNow(): void {
    if (this.closed) return;
    const { runs, atMs } = this.index;
    const columns = this.columns();
    this.order = arrange(runs.values(), this.state, columnOf(this.state.sort.column) ?? NAME, this.details);
    const visible = this.order.slice(0, this.shown);
    const pinned = runs.get(this.state.pinned ?? '') ?? null;
    const focused = document.activeElement;
    visible.forEach((run, at) => {
      let row = this.rows.get(run.id);
      if (!row)
        this.rows.set(
          run.id,
          (row = new RowView(run.id, { select: (id, on) => this.select(id, on), pin: (id) => this.pin(id) })),
        );
      row.update(run, columns, this.details, atMs, { selected: this.selected.has(run.id), pinned });
      if (this.body.children[at] !== row.element) this.body.insertBefore(row.element, this.body.children[at] ?? null);
    });
    const kept = new Set(visible.map(({ id }) => id));
    for (const [id, row] of this.rows)
      if (!kept.has(id)) {
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
    setText(
      this.empty,
      runs.size > 0
        ? 'No run matches.'
        : complete
          ? 'No runs yet: start one with mpirun, or submit one here.'
          : 'Loading …',
    );
    const count = `${formatCount(this.order.length)} of ${formatCount(runs.size)}${cut ? ' (the newest)' : complete ? '' : ', loading more'}`;
    this.controls.update(this.state, {
      count: runs.size > 0 ? count : '',
      selected: this.selected.size,
      operate: may('operate'),
      labels: allLabels(runs.values()),
      states: [...new Set([...runs.values()].map(({ state }) => state))].sort(),
    });
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

  private clearSelection(): void {
    this.selected.clear();
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
    const open = (): void =>
      chooseColumns(
        offers(
          collect((run) => this.details.config(run)),
          collect((run) => this.details.metrics(run)),
        ),
        this.state.columns,
        (columns) => this.change({ columns }),
      );
    collect((run) => this.details.config(run));
    collect((run) => this.details.metrics(run));
    void this.details.settled().then(() => {
      if (!this.closed) open();
    });
  }
}
