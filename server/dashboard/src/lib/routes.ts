import { parseRunView, runViewQuery, type ViewState } from './run_view';

/// What the address names. The query of lists and comparisons is read by their own pages.
export type Route =
  | { page: 'run'; id: string; view: ViewState }
  | { page: 'runs' | (typeof PAGES)[number]; query: URLSearchParams };

const PAGES = ['compare', 'submit', 'nodes', 'alerts', 'tokens', 'audit'] as const;

/// Anything unknown is the list of runs.
export function parseRoute(hash: string): Route {
  const [path = '', text = ''] = hash.replace(/^#/, '').split('?');
  const query = new URLSearchParams(text);
  const id = /^\/runs\/(\w+)$/.exec(path)?.[1];
  if (id) return { page: 'run', id, view: parseRunView(query) };
  return { page: PAGES.find((page) => path === `/${page}`) ?? 'runs', query };
}

export function hashOfRun(id: string, view?: ViewState): string {
  const text = view ? runViewQuery(view) : '';
  return `#/runs/${id}${text ? `?${text}` : ''}`;
}

/// Query parameters in the address without the escapes that a hash does not need, so that links stay readable.
export function hashOf(page: string, query: URLSearchParams): string {
  const text = query.toString().replaceAll('%2C', ',').replaceAll('%3A', ':').replaceAll('%40', '@');
  return `#/${page}${text ? `?${text}` : ''}`;
}
