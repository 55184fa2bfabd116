import { getAll } from '../api/client';
import type { Run } from '../api/types';
import { h, replaceChildren, type Child } from '../lib/dom';
import { hashOfRun } from '../lib/routes';
import { similarRuns } from '../lib/similar';
import type { Page, Status } from './page';

const NEWEST = 5;

const links = (runs: readonly Run[]): HTMLElement =>
  h(
    'ul',
    { class: 'run-links' },
    runs.map((run) =>
      h(
        'li',
        {},
        h('a', { href: hashOfRun(run.id) }, run.name || run.id),
        ' ',
        h('span', { class: 'muted' }, `${run.state} · ${run.id}`),
      ),
    ),
  );

/// Shows "No such run" with links to similar or the newest runs.
export function showMissingRun(root: HTMLElement, status: Status, id: string): void {
  document.title = 'No such run · Babelring';
  status('stale', 'not found');
  const others = h('div', {});
  replaceChildren(
    root,
    h('h1', {}, 'No such run'),
    h(
      'p',
      {},
      'No run has the id ',
      h('code', {}, id),
      '. It may have been deleted permanently, or the link may be incomplete.',
    ),
    others,
    h('p', {}, h('a', { href: '#/runs' }, 'All runs')),
  );
  void getAll<Run>('/runs').then(
    (runs) => {
      const similar = similarRuns(id, runs);
      const shown: Child =
        similar.length > 0
          ? [h('h2', {}, 'Similar runs'), links(similar)]
          : runs.length > 0
            ? [h('h2', {}, 'The newest runs'), links(runs.slice(0, NEWEST))]
            : null;
      replaceChildren(others, shown);
    },
    () => undefined,
  ); // the list of runs shows the error
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
  replaceChildren(
    root,
    h('h1', {}, `No page at #${path}`),
    h('p', {}, 'Available pages:'),
    h(
      'ul',
      {},
      PLACES.map(([hash, label]) => h('li', {}, h('a', { href: hash }, label))),
    ),
  );
}

/// Shown for an unknown address, with links to other pages. For #/runs/NAME, shows runs with a similar name.
export class NotFoundPage implements Page {
  constructor(
    private readonly root: HTMLElement,
    path: string,
    status: Status,
  ) {
    const run = /^\/runs\/([^/]+)$/.exec(path)?.[1];
    if (run !== undefined) showMissingRun(root, status, run);
    else showNothing(root, status, path);
  }

  close(): void {
    this.root.replaceChildren();
  }
}
