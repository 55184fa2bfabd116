import '../styles/list.css';
import { editDistance } from '../lib/nearest';
import { explain, getAll, request } from '../api/client';
import { forgetToken, KEPT_DAYS, setToken, tryToken } from '../api/session';
import type { Run } from '../api/types';
import { h, instead, replaceChildren, setText } from '../lib/dom';
import { hashOfRun } from '../lib/routes';
import type { Page, Place, Status } from './parts';

/// 0 for equal texts, 1 if one contains the other, more for each edit; null if they are not similar.
function unlikeness(sought: string, text: string): number | null {
  const [a, b] = [sought.toLowerCase(), text.toLowerCase()];
  if (a === b) return 0;
  if (Math.min(a.length, b.length) >= 3 && (a.includes(b) || b.includes(a))) return 1;
  const distance = editDistance(a, b);
  return distance <= Math.max(1, Math.floor(Math.min(a.length, b.length) / 4)) ? 1 + distance : null;
}

/// The runs with a name or id similar to the text, most similar first; ties keep their order.
export function similarRuns<Named extends { id: string; name: string }>(
  sought: string,
  runs: readonly Named[],
  most = 5,
): Named[] {
  const found = runs.flatMap((run) => {
    const values = [run.id, run.name].flatMap((text) => (text ? (unlikeness(sought, text) ?? []) : []));
    return values.length > 0 ? [{ run, by: Math.min(...values) }] : [];
  });
  return found
    .sort((a, b) => a.by - b.by)
    .slice(0, most)
    .map(({ run }) => run);
}

const NEWEST = 5;

function links(title: string, runs: readonly Run[]): HTMLElement[] {
  const item = ({ id, name, state }: Run): HTMLElement =>
    h('li', h('a', { href: hashOfRun(id) }, name || id), ' ', h('span.muted', `${state} · ${id}`));
  return [h('h2', title), h('ul.run-links', runs.map(item))];
}

/// Shows "No such run" with links to similar or the newest runs.
export function showMissingRun(root: HTMLElement, status: Status, id: string): void {
  document.title = 'No such run · Babelring';
  status('stale', 'not found');
  const others = h('div');
  const why = '. It may have been deleted permanently, or the link may be incomplete.';
  const about = h('p', 'No run has the id ', h('code', id), why);
  replaceChildren(root, h('h1', 'No such run'), about, others, h('p', h('a', { href: '#/runs' }, 'All runs')));
  const offer = (runs: readonly Run[]): void => {
    const similar = similarRuns(id, runs);
    const newest = runs.length > 0 && links('The newest runs', runs.slice(0, NEWEST));
    replaceChildren(others, similar.length > 0 ? links('Similar runs', similar) : newest);
  };
  void getAll<Run>('/runs').then(offer, () => undefined); // the list of runs shows the error
}

const PLACES: readonly [hash: string, label: string][] = [
  ['#/runs', 'Runs'],
  ['#/compare', 'Compare runs'],
  ['#/submit', 'New run'],
  ['#/nodes', 'Nodes'],
  ['#/alerts', 'Alerts'],
];

function showNothing(root: HTMLElement, status: Status, path: string): void {
  document.title = 'Page not found · Babelring';
  status('stale', 'not found');
  const items = PLACES.map(([href, label]) => h('li', h('a', { href }, label)));
  replaceChildren(root, h('h1', `No page at #${path}`), h('p', 'Available pages:'), h('ul', items));
}

/// Shown for an unknown address, with links to other pages. For #/runs/NAME, shows runs with a similar name.
export function open({ root, status }: Place, { path }: { path: string }): Page {
  const run = /^\/runs\/([^/]+)$/.exec(path)?.[1];
  if (run !== undefined) showMissingRun(root, status, run);
  else showNothing(root, status, path);
  return { close: () => root.replaceChildren() };
}

/// Replaces any page while the server requires a token. The address stays, so the same page opens after the log-in. `refused`: the
/// server rejected a token as invalid or expired.
export function openLogin({ root, status }: Place, refused: boolean, done: () => void): Page {
  document.title = 'Log in · Babelring';
  status('stale', 'not logged in');
  const input = h('input', {
    ...{ type: 'password', id: 'token', name: 'token', autocomplete: 'current-password', spellcheck: 'false' },
    ...{ required: true, 'aria-describedby': 'token-help token-problem' },
  });
  const keep = h('input', { type: 'checkbox', id: 'keep', checked: true });
  const problem = h('p.problem', { id: 'token-problem', role: 'alert' });
  const button = h('button.chip.primary', { type: 'submit' }, 'Log in');
  const submit = async (): Promise<void> => {
    const token = input.value.trim();
    tryToken(token);
    button.disabled = true;
    try {
      await request('/runs?limit=1');
      setToken(token, keep.checked);
      done();
    } catch (error) {
      forgetToken();
      setText(problem, explain(error));
      button.disabled = false;
      input.select();
    }
  };
  const onsubmit = instead(() => void submit());
  const staying = ` stay logged in: this browser keeps the token for all tabs until you log out or do not use it for ${KEPT_DAYS} days`;
  const form = h(
    'form.card.section.login',
    { onsubmit },
    h('h1', 'Log in'),
    h(
      'p',
      { id: 'token-help' },
      'The server requires a token. On its first start it printed a link with one and wrote the token to the file ',
      ...[h('code', 'admin.token'), ' in its data folder (', h('code', '--data'), '), readable by its owner only. '],
      ...[h('code', 'server --new-admin-token'), ' creates another one. To show it:'],
    ),
    h('pre', { tabindex: 0, 'aria-label': 'Command' }, 'cat DATA/admin.token'),
    h('label', { for: 'token' }, 'Token'),
    input,
    h('label.tick', keep, staying),
    problem,
    button,
  );
  replaceChildren(root, form);
  setText(problem, refused ? 'The token is invalid or has expired. Enter another one.' : '');
  input.focus();
  return { close: () => root.replaceChildren() };
}
