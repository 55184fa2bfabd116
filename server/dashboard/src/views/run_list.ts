import { getAll } from '../api/client';
import type { Run } from '../api/types';
import { h, patchChildren, replaceChildren } from '../lib/dom';
import { formatCount, formatDateTime, formatFixed, formatNames, formatSi, formatSignificant } from '../lib/format';
import { hashOfRun } from '../lib/view_state';
import type { Page, Status } from './page';
import { stateBadge } from './run_header';

interface Column {
  title: string;
  value: (run: Run) => string | number | null;
  cell: (run: Run, atMs: number) => Node | string;
  number: boolean;
}

const COLUMNS: readonly Column[] = [
  { title: 'Name', number: false, value: (run) => run.name, cell: (run) => h('a', { href: hashOfRun(run.id) }, run.name || run.id) },
  { title: 'State', number: false, value: (run) => run.state, cell: (run, atMs) => stateBadge(run, atMs, Date.now()) },
  { title: 'Update', number: true, value: (run) => run.update, cell: (run) => formatCount(run.update) },
  { title: 'Loss', number: true, value: (run) => run.loss, cell: (run) => formatSignificant(run.loss) },
  { title: 'Best sacreBLEU', number: true, value: (run) => run.best?.sacrebleu ?? null, cell: (run) => formatFixed(run.best?.sacrebleu, 2) },
  { title: 'Tokens/s', number: true, value: (run) => run.target_tokens_per_second, cell: (run) => formatSi(run.target_tokens_per_second) },
  { title: 'Hosts', number: false, value: (run) => run.hosts.join(' '),
    cell: (run) => h('span', { title: run.hosts.join(', ') }, formatNames(run.hosts)) },
  { title: 'Ranks', number: true, value: (run) => run.world_size, cell: (run) => formatCount(run.world_size) },
  { title: 'Started', number: false, value: (run) => run.started_at, cell: (run) => formatDateTime(Date.parse(run.started_at)) },
];

const REFRESH_MS = 2000;

/// All runs; sorted by a click on a column, narrowed by text, refreshed every two seconds.
export class RunList implements Page {
  private runs: Run[] = [];
  private atMs = 0;  // when they came
  private sort = { column: COLUMNS.length - 1, descending: true };
  private readonly search: HTMLInputElement;
  private readonly heads: HTMLElement;
  private readonly body = h('tbody', {});
  private readonly timer: ReturnType<typeof setInterval>;

  constructor(private readonly root: HTMLElement, private readonly status: Status) {
    document.title = 'Runs · Babelring';
    this.search = h('input', { type: 'search', id: 'search', placeholder: 'Search runs (press /)', oninput: () => this.draw() });
    this.heads = h('tr', {});
    replaceChildren(root, h('div', { class: 'list-head' }, h('h1', {}, 'Runs'),
      h('label', { for: 'search', class: 'visually-hidden' }, 'Search runs'), this.search),
    h('div', { class: 'table-box card', tabindex: 0, role: 'region', 'aria-label': 'Runs' },
      h('table', { class: 'runs' }, h('thead', {}, this.heads), this.body)));
    document.addEventListener('keydown', this.onKey);
    status('loading', 'loading');
    this.drawHeads();
    void this.load();
    this.timer = setInterval(() => void this.load(), REFRESH_MS);
  }

  close(): void {
    clearInterval(this.timer);
    document.removeEventListener('keydown', this.onKey);
    this.root.replaceChildren();
  }

  private readonly onKey = (event: KeyboardEvent): void => {
    if (event.key !== '/' || event.target instanceof HTMLInputElement) return;
    event.preventDefault();
    this.search.focus();
  };

  private async load(): Promise<void> {
    try {
      this.runs = await getAll<Run>('/runs');
      this.atMs = Date.now();
      this.status('live', 'live');
      this.draw();
    } catch {
      this.status('reconnecting', 'reconnecting');
    }
  }

  private drawHeads(): void {
    replaceChildren(this.heads, COLUMNS.map((column, index) => {
      const order = index !== this.sort.column ? null : this.sort.descending ? 'descending' : 'ascending';
      return h('th', { scope: 'col', class: column.number ? 'number' : null, 'aria-sort': order },
        h('button', { type: 'button', class: 'sort', onclick: () => this.sortBy(index) }, column.title));
    }));
  }

  private sortBy(column: number): void {
    this.sort = { column, descending: this.sort.column === column ? !this.sort.descending : COLUMNS[column]!.number };
    this.drawHeads();
    this.heads.querySelectorAll('button')[column]?.focus();
    this.draw();
  }

  private draw(): void {
    const text = this.search.value.trim().toLowerCase();
    const { value } = COLUMNS[this.sort.column]!;
    const sign = this.sort.descending ? -1 : 1;
    const rows = this.runs.filter((run) => `${run.name} ${run.id} ${run.state} ${run.hosts.join(' ')}`.toLowerCase().includes(text)).sort((a, b) => {
      const [left, right] = [value(a), value(b)];
      if (left === null || right === null) return Number(left === null) - Number(right === null);
      return left < right ? -sign : left > right ? sign : 0;
    });
    patchChildren(this.body, rows.length > 0
      ? rows.map((run) => h('tr', {}, COLUMNS.map((column) => h('td', { class: column.number ? 'number' : null }, column.cell(run, this.atMs)))))
      : h('tr', {}, h('td', { colspan: COLUMNS.length, class: 'muted' }, this.runs.length > 0 ? 'no run matches' : 'no runs yet')));
  }
}
