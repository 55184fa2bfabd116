import type { XMode } from './series';

/// What the reader chose to see. It lives in the address, so that a link shows the same view.
export interface ViewState {
  x: XMode;
  smoothing: number;                // 0 … 0.99
  range: [number, number] | null;   // in units of x; null shows everything and follows the run
  log: Set<string>;                 // ids of charts with a logarithmic y axis
}

export type Route = { page: 'runs' } | { page: 'run'; id: string; view: ViewState };

export function defaultView(): ViewState {
  return { x: 'update', smoothing: 0.8, range: null, log: new Set() };
}

function parseView(query: URLSearchParams): ViewState {
  const view = defaultView();
  const x = query.get('x');
  if (x === 'elapsed' || x === 'wall') view.x = x;
  const smoothing = Number(query.get('smooth') ?? NaN);
  if (smoothing >= 0 && smoothing <= 0.99) view.smoothing = smoothing;
  const [from, to] = (query.get('range') ?? '').split('_').map(Number);
  if (from !== undefined && to !== undefined && from < to) view.range = [from, to];
  (query.get('log') ?? '').split(',').filter(Boolean).forEach((id) => view.log.add(id));
  return view;
}

export function parseHash(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#/, '').split('?');
  const run = /^\/runs\/([A-Za-z0-9_]+)$/.exec(path);
  return run ? { page: 'run', id: run[1]!, view: parseView(new URLSearchParams(query)) } : { page: 'runs' };
}

export function hashOfRun(id: string, view: ViewState = defaultView()): string {
  const usual = defaultView();
  const query = new URLSearchParams();
  if (view.x !== usual.x) query.set('x', view.x);
  if (view.smoothing !== usual.smoothing) query.set('smooth', String(view.smoothing));
  if (view.range) query.set('range', view.range.map((bound) => Number(bound.toFixed(3))).join('_'));
  if (view.log.size > 0) query.set('log', [...view.log].join(','));
  const text = query.toString();
  return `#/runs/${id}${text ? `?${text}` : ''}`;
}
