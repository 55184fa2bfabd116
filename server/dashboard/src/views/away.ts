import { explain, getAll, getItems } from '../api/client';
import type { AlertItem, End, LogLine, Run } from '../api/types';
import { localTimes } from '../data/runs';
import { type Child, h } from '../lib/dom';
import { formatClock, formatCount, formatDateTime, formatFixed, formatTime } from '../lib/format';
import { hashOfRun } from '../lib/routes';
import { Owner, type Section } from './parts';
import { ENDED_BADLY, endItem, endsOf } from './run_ends';

const KEY = 'babelring.seen';
const DAY_MS = 86_400_000;
const MAX_LOGS = 20; // runs whose last lines are fetched
const LINES = 5;
const LISTED = 10; // runs that ended well; the others are folded

/// Since when the reader was away: the last time that they said "seen", within the last month; else a day ago.
export function seenMs(stored: string | null, nowMs: number): number {
  const seen = Number(stored ?? NaN);
  return seen > nowMs - 30 * DAY_MS && seen <= nowMs ? seen : nowMs - DAY_MS;
}

/// The runs of the time since `sinceMs`: those that need a person, the worst first, and those that ended well.
export function sortRuns(runs: readonly Run[], sinceMs: number): { needy: Run[]; well: Run[] } {
  const since = ({ updated_at }: Run): boolean => Date.parse(updated_at) >= sinceMs;
  const rank = ({ state, health }: Run): number => (ENDED_BADLY.has(state) ? 0 : health.level === 'bad' ? 1 : 2);
  const isNeedy = (run: Run): boolean => rank(run) < 2 || run.health.level === 'warning';
  const current = runs.filter((run) => !run.archived && (since(run) || !run.finished_at));
  const needy = current.filter(isNeedy).sort((a, b) => rank(a) - rank(b));
  return { needy, well: current.filter((run) => run.state === 'succeeded' && since(run) && !isNeedy(run)) };
}

const bestOf = ({ best }: Run): string =>
  best?.sacrebleu != null ? `BLEU ${formatFixed(best.sacrebleu, 2)}` : `loss ${formatFixed(best?.loss, 4)}`;

/// A run that needs a person, with the last lines of its log, or its last minute if it ended.
const needyRow = (run: Run, log: readonly LogLine[], end: End | undefined): Child => {
  const { id, name, health } = run;
  const text = log.map(({ time, text }) => `${formatClock(Date.parse(time))} ${text}`).join('\n');
  return h(
    'li',
    { 'data-key': id },
    h('a', { href: hashOfRun(id) }, name || id),
    ` ${localTimes(health.headline)}`,
    health.action && h('p.muted', localTimes(health.action)),
    end ? endItem(end) : text && h('details', h('summary', 'last lines of its log'), h('pre', text)),
  );
};

const wellRow = (run: Run): Child =>
  h(
    'li',
    h('a', { href: hashOfRun(run.id) }, run.name || run.id),
    ` update ${formatCount(run.update)}, ${bestOf(run)}`,
  );

const endedWell = (runs: readonly Run[]): Child =>
  runs.length > 0 && [
    h('h3', `Ended well: ${runs.length}`),
    h('ul', runs.slice(0, LISTED).map(wellRow)),
    runs.length > LISTED && h('details', h('summary', 'all others'), h('ul', runs.slice(LISTED).map(wellRow))),
  ];

const alertRow = ({ message, raised_at, state }: AlertItem): Child =>
  h('li', `${formatTime(raised_at)} ${message}${state === 'open' ? '' : ' (over)'}`);

/// The events since the reader said "seen": runs that need a person, with their last minutes or log lines, alerts about
/// the server, and the runs that ended well.
const away = (owner: Owner): Section => {
  let sinceMs = seenMs(localStorage.getItem(KEY), Date.now());
  let runs: readonly Run[] = [];
  let alerts: readonly AlertItem[] = [];
  let problem = '';
  const learnt = new Map<string, string>(); // by run, the attempt and state of which the server was asked
  const lines = new Map<string, readonly LogLine[]>();
  const ends = new Map<string, End>(); // the newest since the reader was away
  const learn = async ({ id, attempt, finished_at, stale_since, state }: Run): Promise<void> => {
    const key = `${attempt} ${state} ${stale_since}`;
    if (learnt.get(id) === key) return;
    learnt.set(id, key);
    lines.set(id, await getItems<LogLine>(`/runs/${id}/logs?tail=${LINES}`).catch(() => []));
    const over = finished_at !== null || stale_since !== null;
    const newest = over ? (await endsOf(id).catch(() => []))[0] : undefined;
    if (newest && Date.parse(newest.sampled_until) >= sinceMs) ends.set(id, newest);
  };
  const seen = (): void => {
    localStorage.setItem(KEY, String((sinceMs = Date.now())));
    owner.load();
  };
  const list = (title: string, rows: readonly Child[]): Child => rows.length > 0 && [h('h3', title), h('ul', rows)];
  return {
    load: async () => {
      const [recent, active, raised] = await Promise.all([
        getAll<Run>(`/runs?archived=false&updated_after=${sinceMs}`),
        getAll<Run>('/runs?archived=false&state=queued,launching,running,stopping,restarting'),
        getItems<AlertItem>('/alerts?limit=500'),
      ]);
      runs = [...new Map([...recent, ...active].map((run) => [run.id, run])).values()];
      alerts = raised;
      problem = '';
      await Promise.all(sortRuns(runs, sinceMs).needy.slice(0, MAX_LOGS).map(learn));
    },
    failed: (error) => owner.set(() => (problem = explain(error))),
    render: () => {
      const { needy, well } = sortRuns(runs, sinceMs);
      const own = alerts.filter(
        ({ run, raised_at, state }) => !run && (state === 'open' || Date.parse(raised_at) >= sinceMs),
      );
      const count = needy.length + own.filter(({ state }) => state === 'open').length;
      return [
        h(
          'p',
          { role: 'status' },
          `Since ${formatDateTime(sinceMs)}: ${count === 0 ? 'nothing needs you' : `${count} need${count === 1 ? 's' : ''} a look`}. `,
          h('button.chip', { onclick: seen }, 'seen'),
        ),
        h('p.problem', { role: 'alert' }, problem),
        list(
          'Needs a look',
          needy.map((run) => needyRow(run, lines.get(run.id) ?? [], ends.get(run.id))),
        ),
        list('About the server', own.map(alertRow)),
        endedWell(well),
      ];
    },
  };
};

export function awayCard(): { element: HTMLElement; close: () => void } {
  const owner = new Owner(away);
  owner.load();
  owner.every(30_000, () => document.visibilityState === 'visible' && owner.load());
  return {
    element: h('section.card.section', h('h2', 'While you were away'), owner.element),
    close: () => owner.close(),
  };
}
