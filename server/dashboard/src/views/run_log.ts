import { explain, getJson } from '../api/client';
import type { LogLine } from '../api/types';
import type { RunData } from '../data/run_data';
import { h, patchChildren, replaceChildren, setText } from '../lib/dom';
import { formatClock } from '../lib/format';
import type { ViewState } from '../lib/run_view';

const TAIL = 300;
const PAUSE_MS = 700; // min time between two requests

/// The newest log lines, filtered by level, rank and text on the server. Follows the end until the user scrolls up.
export class RunLog {
  readonly element: HTMLElement;
  private readonly box = h('div', {
    class: 'log',
    tabindex: 0,
    role: 'log',
    'aria-label': 'Log',
    'aria-live': 'off',
    onscroll: () => this.scrolled(),
  });
  private readonly follow: HTMLInputElement;
  private readonly said = h('span', { class: 'muted', role: 'status' });
  private readonly rank: HTMLSelectElement;
  private timer: ReturnType<typeof setTimeout> | null = null;
  private due = false;
  private loading = false;
  private ranks = 0;
  private top = 0; // last scroll position

  constructor(
    private readonly data: RunData,
    private readonly view: ViewState,
    private readonly onView: () => void,
  ) {
    const choose = (id: string, member: 'logLevel' | 'logRank', options: HTMLElement[]): HTMLSelectElement => {
      const select = h('select', { id, onchange: () => this.set(member, select.value) }, options);
      return select;
    };
    const level = choose(
      'log-level',
      'logLevel',
      ['', 'debug', 'info', 'warn', 'error'].map((name) => h('option', { value: name }, name || 'all levels')),
    );
    level.value = view.logLevel;
    this.rank = choose('log-rank', 'logRank', [h('option', { value: '' }, 'all ranks')]);
    const text = h('input', {
      type: 'search',
      id: 'log-text',
      placeholder: 'Search the log',
      value: view.logText,
      oninput: () => this.set('logText', text.value),
    });
    this.follow = h('input', { type: 'checkbox', checked: true, onchange: () => this.toEnd() });
    this.element = h(
      'div',
      {},
      h(
        'p',
        { class: 'field-row' },
        h('label', { for: 'log-level', class: 'visually-hidden' }, 'Level'),
        level,
        h('label', { for: 'log-rank', class: 'visually-hidden' }, 'Rank'),
        this.rank,
        h('label', { for: 'log-text', class: 'visually-hidden' }, 'Search the log'),
        text,
        h('label', { class: 'choice' }, this.follow, ' follow'),
        this.said,
      ),
      this.box,
    );
  }

  close(): void {
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
    this.due = false;
  }

  /// Updates the choice of ranks.
  update(): void {
    const count = this.data.run?.world_size ?? 0;
    if (count === this.ranks) return;
    this.ranks = count;
    replaceChildren(
      this.rank,
      h('option', { value: '' }, 'all ranks'),
      Array.from({ length: Math.min(count, 512) }, (_, rank) => h('option', { value: rank }, `rank ${rank}`)),
    );
    this.rank.value = this.view.logRank;
  }

  /// New lines may be available: loads soon, with one request at a time.
  refresh(): void {
    this.due = true;
    if (!this.loading && this.timer === null) void this.run();
  }

  private async run(): Promise<void> {
    while (this.due) {
      this.due = false;
      this.loading = true;
      await this.load();
      this.loading = false;
      await new Promise<void>((resolve) => {
        this.timer = setTimeout(resolve, PAUSE_MS);
      });
      this.timer = null;
    }
  }

  private set(member: 'logLevel' | 'logRank' | 'logText', value: string): void {
    this.view[member] = value;
    this.onView();
    this.follow.checked = true;
    this.refresh();
  }

  private async load(): Promise<void> {
    const { logLevel, logRank, logText } = this.view;
    const query = new URLSearchParams({ tail: String(TAIL) });
    if (logLevel) query.set('level', logLevel);
    if (logRank) query.set('rank', logRank);
    if (logText) query.set('q', logText);
    try {
      const { items } = await getJson<{ items: LogLine[] }>(`/runs/${this.data.id}/logs?${query}`);
      this.draw(items);
      setText(
        this.said,
        items.length === TAIL ? `the newest ${TAIL} lines` : `${items.length} ${items.length === 1 ? 'line' : 'lines'}`,
      );
    } catch (error) {
      setText(this.said, `not loaded: ${explain(error)}`);
    }
  }

  private draw(lines: readonly LogLine[]): void {
    patchChildren(
      this.box,
      lines.length > 0
        ? lines.map((line) =>
            h(
              'div',
              { class: `log-line log-${line.level}` },
              h('time', { datetime: line.time }, formatClock(Date.parse(line.time))),
              h('span', { class: 'log-rank' }, `rank ${line.rank}`),
              h('span', { class: 'log-level' }, line.level),
              h('span', { class: 'log-text' }, line.text),
            ),
          )
        : h(
            'p',
            { class: 'muted' },
            this.view.logLevel || this.view.logRank || this.view.logText ? 'no line matches' : 'nothing logged yet',
          ),
    );
    if (this.follow.checked) this.toEnd();
  }

  private toEnd(): void {
    if (this.follow.checked) this.box.scrollTop = this.box.scrollHeight;
  }

  /// Only the user scrolls up; lines that rewrap when the window is resized do not.
  private scrolled(): void {
    const { scrollTop, scrollHeight, clientHeight } = this.box;
    if (scrollTop < this.top) this.follow.checked = false;
    if (scrollHeight - scrollTop - clientHeight < 8) this.follow.checked = true;
    this.top = scrollTop;
  }
}
