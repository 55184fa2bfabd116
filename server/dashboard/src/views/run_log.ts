import { explain, getItems, pause, sendJson } from '../api/client';
import { may } from '../api/session';
import type { AlertItem, Attempt, LogLine, Transition } from '../api/types';
import { type Child, h, valueOf } from '../lib/dom';
import { DASH, formatClock, formatCount, formatTime } from '../lib/format';
import { labelled, options, type Owner, type Section, status, table } from './parts';
import type { RunContext } from './run_sections';

const changesTable = (transitions: readonly Transition[]): Child =>
  table(
    'State history',
    ['Time', 'State', '#Attempt', 'Cause', 'Actor'],
    [...transitions]
      .reverse()
      .map(({ time, to, attempt, cause, actor }) => [
        formatTime(time),
        h(`span.state.state-${to}`, to),
        attempt || '',
        cause,
        actor,
      ]),
  );

const attemptsTable = (attempts: readonly Attempt[]): Child =>
  table(
    'Attempts',
    ['#Attempt', 'Launcher', '#Ranks', 'From checkpoint', 'Started', 'Ended', '#Exit code', 'Reason for the end'],
    [...attempts]
      .reverse()
      .map((row) => [
        row.attempt,
        row.launcher,
        row.world_size === null ? '' : formatCount(row.world_size),
        row.resumed_from?.split('/').at(-1) ?? '',
        formatTime(row.started_at),
        formatTime(row.ended_at),
        row.exit_code ?? DASH,
        row.cause,
      ]),
  );

/// The run's alerts, state changes (with cause and actor) and attempts.
export function history({ data, reload }: RunContext, owner: Owner): Section {
  const acknowledge = async ({ id }: AlertItem): Promise<string> => {
    await sendJson('POST', `/alerts/${id}/ack`);
    reload(['alerts']);
    return '';
  };
  const answer = (alert: AlertItem): Child => {
    if (alert.acknowledged_at) return h('span.muted', `acknowledged by ${alert.acknowledged_by ?? 'someone'}`);
    const onclick = (): void => void owner.act(() => acknowledge(alert));
    return may('operate') && h('button.chip', { onclick }, 'acknowledge');
  };
  const alertCells = (alert: AlertItem): Child[] => [
    formatTime(alert.raised_at),
    h(`span.severity.severity-${alert.state}`, alert.kind.replaceAll('_', ' ')),
    alert.message,
    alert.cleared_at ? formatTime(alert.cleared_at) : 'still open',
    answer(alert),
  ];
  const alertsTable = (alerts: readonly AlertItem[]): Child => {
    const keys = alerts.map(({ id }) => id);
    return table('Alerts', ['Raised', 'Kind', 'Message', 'Cleared', ''], alerts.map(alertCells), keys);
  };
  return {
    inputs: () => [data.alerts, data.transitions, data.attempts, may('operate')],
    render: () => [
      h('div', data.alerts.length > 0 ? alertsTable(data.alerts) : h('p.muted', 'No alerts.')),
      status(owner.said),
      h('div', data.transitions.length > 0 && changesTable(data.transitions)),
      h('div', data.attempts.length > 0 && attemptsTable(data.attempts)),
    ],
  };
}

const TAIL = 300;
const PAUSE_MS = 700; // min time between two requests
const MAX_RANKS = 512;
const LEVELS = ['', 'debug', 'info', 'warn', 'error'];

const lineOf = ({ level, time, rank, text }: LogLine): HTMLElement =>
  h(
    `div.log-line.log-${level}`,
    h('time', { datetime: time }, formatClock(Date.parse(time))),
    h('span.log-rank', `rank ${rank}`),
    h('span.log-level', level),
    h('span.log-text', text),
  );

/// The newest log lines, filtered by level, rank and text on the server. Follows the end until the user scrolls up.
class Log implements Section {
  private lines: readonly LogLine[] | null = null;
  private follow = true;
  private top = 0; // last scroll position
  private loadedMs = -Infinity;

  constructor(
    private readonly run: RunContext,
    private readonly owner: Owner,
  ) {}

  async load(): Promise<void> {
    const { logLevel, logRank, logText } = this.run.view;
    const wait = this.loadedMs + PAUSE_MS - performance.now();
    if (wait > 0) await pause(wait);
    const query = new URLSearchParams({ tail: String(TAIL) });
    if (logLevel) query.set('level', logLevel);
    if (logRank) query.set('rank', logRank);
    if (logText) query.set('q', logText);
    const loading = getItems<LogLine>(`/runs/${this.run.data.id}/logs?${query}`);
    const lines = await loading.finally(() => (this.loadedMs = performance.now()));
    const count = `${lines.length} ${lines.length === 1 ? 'line' : 'lines'}`;
    this.lines = lines;
    this.owner.said = lines.length === TAIL ? `the newest ${TAIL} lines` : count;
  }

  failed(error: unknown): void {
    this.owner.say(`not loaded: ${explain(error)}`);
  }

  inputs(): readonly unknown[] {
    const { data, view } = this.run;
    return [this.lines, this.follow, data.run?.world_size, view.logLevel, view.logRank, view.logText];
  }

  render(): Child {
    const { logLevel, logRank, logText } = this.run.view;
    const none = logLevel || logRank || logText ? 'no line matches' : 'nothing logged yet';
    const shown = this.lines?.length === 0 ? h('p.muted', none) : this.lines?.map(lineOf);
    const onscroll = (event: Event): void => this.scrolled(event.currentTarget as HTMLElement);
    queueMicrotask(() => this.toEnd());
    return [
      this.fields(),
      h('div.log', { tabindex: 0, role: 'log', 'aria-label': 'Log', 'aria-live': 'off', onscroll }, shown),
    ];
  }

  private fields(): Child {
    const { data, view } = this.run;
    const count = Math.min(data.run?.world_size ?? 0, MAX_RANKS);
    const ranks = Array.from({ length: count }, (_, rank) => [String(rank), `rank ${rank}`] as const);
    const levels = LEVELS.map((name) => [name, name || 'all levels'] as const);
    const set = (member: 'logLevel' | 'logRank' | 'logText') => (event: Event) => this.set(member, valueOf(event));
    const level = h('select', { id: 'log-level', onchange: set('logLevel') }, options(levels, view.logLevel));
    const choices = options([['', 'all ranks'], ...ranks], view.logRank);
    const rank = h('select', { id: 'log-rank', onchange: set('logRank') }, choices);
    const search = { type: 'search', id: 'log-text', placeholder: 'Search the log', value: view.logText };
    const follow = (event: Event): void => this.setFollow((event.currentTarget as HTMLInputElement).checked);
    return h(
      'p.field-row',
      labelled('Level', level, true),
      labelled('Rank', rank, true),
      labelled('Search the log', h('input', { ...search, oninput: set('logText') }), true),
      h('label.choice', h('input', { type: 'checkbox', checked: this.follow, onchange: follow }), ' follow'),
      h('span.muted', { role: 'status' }, this.owner.said),
    );
  }

  private set(member: 'logLevel' | 'logRank' | 'logText', value: string): void {
    this.run.view[member] = value;
    this.run.remember();
    this.setFollow(true);
    this.owner.load();
  }

  private setFollow(follow: boolean): void {
    this.follow = follow;
    this.owner.draw();
  }

  private toEnd(): void {
    const box = this.owner.element.querySelector('.log');
    if (this.follow && box) box.scrollTop = box.scrollHeight;
  }

  /// Only the user scrolls up; lines that rewrap when the window is resized do not.
  private scrolled({ scrollTop, scrollHeight, clientHeight }: HTMLElement): void {
    const up = scrollTop < this.top;
    this.top = scrollTop;
    this.setFollow(scrollHeight - scrollTop - clientHeight < 8 || (this.follow && !up));
  }
}

export const log = (run: RunContext, owner: Owner): Section => new Log(run, owner);
