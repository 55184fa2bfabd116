import 'uplot/dist/uPlot.min.css';
import './styles/page.css';
import './styles/run.css';
import { h, replaceChildren, setText } from './lib/dom';
import { parseHash } from './lib/view_state';
import type { Page, StatusKind } from './views/page';
import { RunList } from './views/run_list';
import { RunPage } from './views/run_page';

const main = document.querySelector<HTMLElement>('#main')!;
const crumbs = document.querySelector<HTMLElement>('#crumbs')!;
const connection = document.querySelector<HTMLElement>('#connection')!;

let page: Page | null = null;

function showStatus(kind: StatusKind, text: string): void {
  connection.dataset['kind'] = kind;
  setText(connection, text);
}

function open(): void {
  page?.close();
  const route = parseHash(location.hash);
  replaceChildren(crumbs, route.page === 'run' ? h('a', { href: '#/runs' }, 'all runs') : null);
  page = route.page === 'run' ? new RunPage(main, route.id, route.view, showStatus) : new RunList(main, showStatus);
}

document.querySelector('[data-skip]')!.addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener('hashchange', open);
open();
