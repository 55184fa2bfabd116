import { parseHash, type Route as RunRoute } from './view_state';

/// What the address names. The query of lists and comparisons is read by their own pages.
export type Route =
  | Extract<RunRoute, { page: 'run' }>
  | { page: 'runs' | (typeof PAGES)[number]; query: URLSearchParams };

const PAGES = ['compare', 'submit', 'nodes', 'alerts', 'tokens', 'audit'] as const;

/// Anything unknown is the list of runs.
export function parseRoute(hash: string): Route {
  const run = parseHash(hash);
  if (run.page === 'run') return run;
  const [path = '', query = ''] = hash.replace(/^#/, '').split('?');
  return { page: PAGES.find((page) => path === `/${page}`) ?? 'runs', query: new URLSearchParams(query) };
}

/// Query parameters in the address without the escapes that a hash does not need, so that links stay readable.
export function hashOf(page: string, query: URLSearchParams): string {
  const text = query.toString().replaceAll('%2C', ',').replaceAll('%3A', ':').replaceAll('%40', '@');
  return `#/${page}${text ? `?${text}` : ''}`;
}
