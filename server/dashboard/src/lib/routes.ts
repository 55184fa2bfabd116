import type { XMode } from './series';

/// The tabs of a run's page: name in the address, and title. The report comes first once the run has ended.
export const RUN_TABS = {
  ...{ report: 'Report', charts: 'Charts', translations: 'Translations', checkpoints: 'Checkpoints', ranks: 'Ranks' },
  ...{ inside: 'Inside an update', whatif: 'What if', log: 'Log and history', config: 'Configuration' },
} as const;
export type RunTab = keyof typeof RUN_TABS;

/// The view of a run's page. Stored in the address, so that a link shows the same view.
export interface ViewState {
  tab: string; // a RunTab; '' follows from the rest of the address and the run's state
  x: XMode;
  logX: boolean;
  smoothing: number; // 0 … 0.99
  range: [number, number] | null; // in units of x; null shows everything and follows the run
  log: Set<string>; // ids of charts with a logarithmic y axis
  linkGbit: number; // capacity of a host's link in Gbit/s, entered by the user; 0: unknown
  find: string; // filter text of "all metrics"
  all: boolean; // whether "all metrics" is open
  heat: string; // key of the heat strip
  evaluation: string; // id of the evaluation whose translations are shown; '' follows the newest
  against: string; // id of the run whose configuration is compared; '' for none
  logLevel: string;
  logRank: string;
  logText: string;
  whatIf: string; // settings of the prediction, as in 'hosts:4,link_gbit:25'; '' for none
}

export const X_MODES: readonly XMode[] = ['update', 'elapsed', 'wall', 'tokens'];
export const MAX_RUNS = 500; // of a comparison
export const MAX_COMPARED = 8; // configurations with lines: the number of distinguishable colours
export const DEFAULT_HEAT = 'forward_ms';

export const defaultView = (): ViewState => ({
  ...{ tab: '', x: 'update', logX: false, smoothing: 0.8, range: null, log: new Set(), linkGbit: 0 },
  ...{ find: '', all: false, heat: DEFAULT_HEAT, evaluation: '', against: '' },
  ...{ logLevel: '', logRank: '', logText: '', whatIf: '' },
});

/// The view's text members and their names in the address.
const TEXT_NAMES = {
  ...{ tab: 'tab', find: 'find', heat: 'heat', evaluation: 'eval', against: 'against' },
  ...{ logLevel: 'level', logRank: 'rank', logText: 'text', whatIf: 'whatif' },
} as const;
const TEXTS = Object.entries(TEXT_NAMES) as [keyof typeof TEXT_NAMES, string][];

/// The items of a list in the address.
export const listOf = (text: string | null): string[] => (text ?? '').split(',').filter(Boolean);

export function parseRunView(query: URLSearchParams): ViewState {
  const view = defaultView();
  const x = X_MODES.find((mode) => mode === query.get('x'));
  if (x) view.x = x;
  view.logX = query.get('logx') === '1' && view.x !== 'wall';
  view.all = query.get('all') === '1';
  const smoothing = Number(query.get('smooth') || NaN);
  if (smoothing >= 0 && smoothing <= 0.99) view.smoothing = smoothing;
  const link = Number(query.get('link') || 0);
  if (link > 0 && link <= 10_000) view.linkGbit = link;
  const [from, to] = (query.get('range') ?? '').split('_').map(Number);
  if (from !== undefined && to !== undefined && from < to) view.range = [from, to];
  listOf(query.get('log')).forEach((id) => view.log.add(id));
  for (const [member, name] of TEXTS) view[member] = query.get(name) ?? view[member];
  return view;
}

/// A query of what is neither absent nor empty.
export function queryOf(values: Readonly<Record<string, string | false | null | undefined>>): URLSearchParams {
  const known = Object.entries(values).filter((entry): entry is [string, string] => Boolean(entry[1]));
  return new URLSearchParams(known);
}

/// The query with everything that differs from the default, so that the usual address stays short.
export function runViewQuery(view: ViewState): string {
  const usual = defaultView();
  const texts = TEXTS.map(([member, name]) => [name, view[member] !== usual[member] && view[member]] as const);
  return queryOf({
    x: view.x !== usual.x && view.x,
    logx: view.logX && '1',
    smooth: view.smoothing !== usual.smoothing && String(view.smoothing),
    range: view.range?.map((bound) => Number(bound.toFixed(3))).join('_'),
    log: [...view.log].join(),
    link: view.linkGbit > 0 && String(view.linkGbit),
    all: view.all && '1',
    ...Object.fromEntries(texts),
  }).toString();
}

/// The tabs that parts of the address belong to; all others belong to the charts.
const TABS_ASKED: Record<string, RunTab> = {
  ...{ whatif: 'whatif', eval: 'translations', heat: 'ranks', against: 'config' },
  ...{ level: 'log', rank: 'log', text: 'log' },
};

/// The tab that shows what the address asks for; if it asks for none, the report of a run that has ended, the log if it ended before its
/// first update, and the charts of any other.
export function tabOf(view: ViewState, run: { finished_at: string | null; update: number }): RunTab {
  if (Object.hasOwn(RUN_TABS, view.tab)) return view.tab as RunTab;
  const asked = [...new URLSearchParams(runViewQuery({ ...view, tab: '' })).keys()];
  if (!run.finished_at || asked.length > 0) return asked.map((name) => TABS_ASKED[name]).find(Boolean) ?? 'charts';
  return run.update > 0 ? 'report' : 'log';
}

/// The tabs in their order.
export function tabsOf(ended: boolean): RunTab[] {
  const [report, ...others] = Object.keys(RUN_TABS) as [RunTab, ...RunTab[]];
  return ended ? [report, ...others] : [...others, report];
}

/// The route in the address. The pages parse the queries of lists and comparisons.
export type Route =
  | { page: 'run'; id: string; view: ViewState }
  | { page: 'sweep'; name: string; query: URLSearchParams }
  | { page: (typeof PAGES)[number]; query: URLSearchParams }
  | { page: 'unknown'; path: string };

const PAGES = ['runs', 'compare', 'submit', 'nodes', 'alerts', 'tokens', 'audit'] as const;

/// An empty address is the list of runs.
export function parseRoute(hash: string): Route {
  const [path = '', text = ''] = hash.replace(/^#/, '').split('?');
  const query = new URLSearchParams(text);
  const id = /^\/runs\/(\w+)$/.exec(path)?.[1];
  if (id) return { page: 'run', id, view: parseRunView(query) };
  const name = /^\/sweep\/(.+)$/.exec(path)?.[1];
  if (name) return { page: 'sweep', name: readable(name), query };
  const page = PAGES.find((each) => path === `/${each}`) ?? (['', '/'].includes(path) ? 'runs' : null);
  return page ? { page, query } : { page: 'unknown', path: readable(path) };
}

/// Decodes escapes; keeps invalid ones.
function readable(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

export const hashOfSweep = (name: string): string => `#/sweep/${encodeURIComponent(name)}`;

export function hashOfRun(id: string, view?: ViewState): string {
  const text = view ? runViewQuery(view) : '';
  return `#/runs/${id}${text ? `?${text}` : ''}`;
}

/// Query parameters for the address, without escapes that a hash does not need, so that links stay readable.
export function hashOf(page: string, query: URLSearchParams): string {
  const text = query.toString().replaceAll('%2C', ',').replaceAll('%3A', ':').replaceAll('%40', '@');
  return `#/${page}${text ? `?${text}` : ''}`;
}

/// The page of an address, without its query.
const pageOf = (hash: string): string => {
  const path = readable(hash.replace(/^#/, '').split('?')[0] ?? '');
  return path === '' || path === '/' ? '/runs' : path;
};

/// Whether `hash` is an address of the page whose address is `now`.
export const samePage = (hash: string, now: string): boolean => pageOf(hash) === pageOf(now);

/// Writes the view of a page into the address, unless the reader has left for another page: while the file of that one is fetched, this one
/// is still shown, and would take its address away.
export function writeAddress(hash: string): void {
  if (samePage(hash, location.hash)) history.replaceState(null, '', hash);
}
