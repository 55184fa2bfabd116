import { explain, getItems, getJson, pause, sendJson } from '../api/client';
import { may } from '../api/session';
import type { AlertItem, Attempt, LogLine, Run, Transition } from '../api/types';
import { differences, search } from '../lib/config_tree';
import { checkedOf, type Child, copyText, h, valueOf } from '../lib/dom';
import { DASH, formatClock, formatCount, formatTime } from '../lib/format';
import { hashOfRun, queryOf } from '../lib/routes';
import { labelled, options, type Owner, type RunContext, type Section, status, table } from './parts';

const changeCells = ({ time, to, attempt, cause, actor }: Transition): Child[] => [
  formatTime(time),
  h(`span.state.state-${to}`, to),
  attempt || '',
  cause,
  actor,
];
const CHANGE_HEADS = ['Time', 'State', '#Attempt', 'Cause', 'Actor'];

const attemptCells = (row: Attempt): Child[] => [
  row.attempt,
  row.launcher,
  row.world_size === null ? '' : formatCount(row.world_size),
  row.resumed_from?.split('/').at(-1) ?? '',
  formatTime(row.started_at),
  formatTime(row.ended_at),
  row.exit_code ?? DASH,
  row.cause,
];
const FIRST_HEADS = ['#Attempt', 'Launcher', '#Ranks', 'From checkpoint'];
const ATTEMPT_HEADS = [...FIRST_HEADS, 'Started', 'Ended', '#Exit code', 'Reason for the end'];

/// A table of rows that are oldest first, newest first.
const newestFirst = <Row>(
  caption: string,
  heads: string[],
  rows: readonly Row[],
  cells: (row: Row) => Child[],
): Child => rows.length > 0 && table(caption, heads, rows.map(cells).toReversed());

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
      h('div', newestFirst('State history', CHANGE_HEADS, data.transitions, changeCells)),
      h('div', newestFirst('Attempts', ATTEMPT_HEADS, data.attempts, attemptCells)),
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
    const query = queryOf({ tail: String(TAIL), level: logLevel, rank: logRank, q: logText });
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
    const follow = (event: Event): void => this.setFollow(checkedOf(event));
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
    this.owner.set(() => (this.follow = follow));
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

function differenceOf(config: string, id: string, other: Run): Child {
  const found = differences(config, other.config ?? '');
  const count = `${formatCount(found.length)} ${found.length === 1 ? 'difference' : 'differences'} to `;
  const cell = (value: string | null, kind: string): Child =>
    value === null ? h('span.muted', 'not set') : h('mark', { class: kind }, value);
  const rows = found.map(({ path, left, right }) => [h('code', path), cell(left, 'extra'), cell(right, 'missed')]);
  return [
    h('p', found.length === 0 ? 'No difference to ' : count, h('a', { href: hashOfRun(id) }, other.name || id)),
    rows.length > 0 && table('Differences of the configurations', ['Key', 'This run', 'Other run'], rows),
  ];
}

/// Shows the differences to the configuration of another run, or why they are not known.
async function compareWith(config: string, id: string): Promise<() => Child> {
  try {
    const other = await getJson<Run>(`/runs/${id}`);
    return () => differenceOf(config, id, other);
  } catch (error) {
    return () => h('p.problem', `not compared: ${explain(error)}`);
  }
}

const textOf = (config: string, wanted: string): Child =>
  config === ''
    ? 'not reported'
    : search(config, wanted).map(({ line, hit }) => (hit ? h('mark.extra', `${line}\n`) : `${line}\n`));

const named = ({ id, name }: Run): [string, string] => [id, `${name || 'unnamed'} · ${id.slice(-6)}`];
const copy = async (text: string): Promise<string> =>
  (await copyText(text)) ? 'copied' : 'the browser does not allow copying';
const SEARCH = 'Search the configuration';

/// The resolved configuration, with text search and a comparison with another run.
export function configuration({ data, view, remember }: RunContext, owner: Owner): Section {
  let wanted = ''; // text to search for
  let others: readonly Run[] | null = null; // fetched when the user is about to choose one
  let offering: Promise<void> | null = null;
  let compared: string | null = null; // the configuration that was compared with the other run's
  let difference = (): Child => null;
  const config = (): string => data.run?.config ?? '';
  const offered = (found: readonly Run[]): void => owner.set(() => (others = found.filter(({ id }) => id !== data.id)));
  const refused = (error: unknown): void => {
    offering = null;
    owner.say(explain(error));
  };
  const offer = (): Promise<void> => (offering ??= getItems<Run>('/runs?limit=200').then(offered, refused));
  const compare = async (): Promise<void> => {
    const id = view.against;
    const shown = id === '' ? () => null : await compareWith(config(), id);
    if (id !== view.against) return;
    owner.set(() => (difference = shown));
  };
  const choose = (event: Event): void => {
    view.against = valueOf(event);
    remember();
    void compare();
  };
  const find = (event: Event): void => {
    wanted = valueOf(event);
    const hits = search(config(), wanted).filter(({ hit }) => hit).length;
    owner.say(wanted.trim() ? `${formatCount(hits)} ${hits === 1 ? 'line' : 'lines'}` : '');
  };
  return {
    inputs: () => {
      if (view.against !== '' && data.run && compared !== config()) {
        compared = config();
        void offer().then(compare);
      }
      return [data.run?.config, wanted, others, difference];
    },
    render: () => {
      const ask = { id: 'config-against', onfocus: () => void offer(), onpointerdown: () => void offer() };
      const field = h('input', { type: 'search', id: 'config-search', placeholder: SEARCH, oninput: find });
      const choices = options([['', 'no other run'], ...(others ?? []).map(named)], view.against);
      return [
        h(
          'p.field-row',
          labelled(SEARCH, field, true),
          labelled('compare with', h('select', { ...ask, onchange: choose }, choices)),
          h('button.chip', { onclick: () => void owner.act(() => copy(config())) }, 'copy'),
          may('operate') && h('a.chip', { href: `#/submit?from=${data.id}` }, 'new run from this'),
          h('span.muted', { role: 'status' }, owner.said),
        ),
        h('div', difference()),
        h('pre', { tabindex: 0, 'aria-label': 'Configuration' }, textOf(config(), wanted)),
      ];
    },
  };
}
