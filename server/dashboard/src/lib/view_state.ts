import { defaultView, parseRunView, runViewQuery, type ViewState } from './run_view';

export { defaultView, type ViewState } from './run_view';

export type Route = { page: 'runs' } | { page: 'run'; id: string; view: ViewState };

export function parseHash(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#/, '').split('?');
  const run = /^\/runs\/([A-Za-z0-9_]+)$/.exec(path);
  return run ? { page: 'run', id: run[1]!, view: parseRunView(new URLSearchParams(query)) } : { page: 'runs' };
}

export function hashOfRun(id: string, view: ViewState = defaultView()): string {
  const text = runViewQuery(view);
  return `#/runs/${id}${text ? `?${text}` : ''}`;
}
