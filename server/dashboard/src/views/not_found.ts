import { getAll } from '../api/client';
import type { Run } from '../api/types';
import { h, replaceChildren, type Child } from '../lib/dom';
import { hashOfRun } from '../lib/routes';
import { similarRuns } from '../lib/similar';
import type { Page, Status } from './page';

const NEWEST = 5;

const links = (runs: readonly Run[]): HTMLElement => h('ul', { class: 'run-links' }, runs.map((run) => h('li', {},
  h('a', { href: hashOfRun(run.id) }, run.name || run.id), ' ', h('span', { class: 'muted' }, `${run.state} · ${run.id}`))));

/// "No such run", once, with the runs that may be meant.
export function showMissingRun(root: HTMLElement, status: Status, id: string): void {
  document.title = 'No such run · Babelring';
  status('stale', 'not found');
  const others = h('div', {});
  replaceChildren(root, h('h1', {}, 'No such run'), h('p', {}, 'No run has the id ', h('code', {}, id), '. It may have been deleted for good, or the link was cut.'), others,
    h('p', {}, h('a', { href: '#/runs' }, 'All runs')));
  void getAll<Run>('/runs').then((runs) => {
    const similar = similarRuns(id, runs);
    const shown: Child = similar.length > 0 ? [h('h2', {}, 'Similar runs'), links(similar)]
      : runs.length > 0 ? [h('h2', {}, 'The newest runs'), links(runs.slice(0, NEWEST))] : null;
    replaceChildren(others, shown);
  }, () => undefined);  // the list itself says what is wrong
}

const PLACES: readonly [hash: string, label: string][] = [['#/runs', 'Runs'], ['#/compare', 'Compare runs'], ['#/submit', 'New run'], ['#/nodes', 'Nodes'], ['#/alerts', 'Alerts']];

function showNothing(root: HTMLElement, status: Status, path: string): void {
  document.title = 'Nothing here · Babelring';
  status('stale', 'not found');
  replaceChildren(root, h('h1', {}, `Nothing at #${path}`), h('p', {}, 'The address names no page. There are:'),
    h('ul', {}, PLACES.map(([hash, label]) => h('li', {}, h('a', { href: hash }, label)))));
}

/// What an address shows that names no page: where else to go. One of a run that cannot be an id shows runs of such a name.
export class NotFoundPage implements Page {
  constructor(private readonly root: HTMLElement, path: string, status: Status) {
    const run = /^\/runs\/([^/]+)$/.exec(path)?.[1];
    if (run !== undefined) showMissingRun(root, status, run);
    else showNothing(root, status, path);
  }

  close(): void {
    this.root.replaceChildren();
  }
}
