import { parseRunView, runViewQuery, type ViewState } from './run_view';

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
