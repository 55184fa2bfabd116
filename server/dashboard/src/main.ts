import 'uplot/dist/uPlot.min.css';
import './styles/page.css';
import './styles/run.css';
import { explain } from './api/problem';
import { abortPage, BASE } from './api/request';
import { askSelf } from './api/self';
import { hasToken, onUnauthorized, setScope, startSession } from './api/session';
import { setText } from './lib/dom';
import { addShortcuts, onShortcutKey } from './lib/keys';
import { parseRoute, type Route } from './lib/routes';
import { applyTheme, readTheme } from './lib/theme_choice';
import type { Page, StatusKind } from './views/page';
import { SiteHeader } from './views/site_header';

const main = document.querySelector<HTMLElement>('#main')!;
const connection = document.querySelector<HTMLElement>('#connection')!;
const notice = document.querySelector<HTMLElement>('#notice')!;

let page: Page | null = null;

function showStatus(kind: StatusKind, text: string): void {
  connection.dataset['kind'] = kind;
  setText(connection, text);
}

const say = (text: string): void => setText(notice, text);

function show(build: () => Page): void {
  const first = page === null;
  page?.close();
  abortPage();
  page = null;
  say('');
  page = build();
  if (!first && document.activeElement === document.body) main.focus({ preventScroll: true });  // what had the focus is gone
}

/// Fetches the page's own file, if this is the first visit, and returns what builds the page.
async function builderOf(route: Route): Promise<() => Page> {
  switch (route.page) {
    case 'run': {
      const { RunPage } = await import('./views/run_page');
      return () => new RunPage(main, route.id, route.view, showStatus);
    }
    case 'compare': {
      const { ComparePage } = await import('./views/compare/compare_page');
      return () => new ComparePage(main, route.query, showStatus);
    }
    case 'submit': {
      const { SubmitPage } = await import('./views/runs/submit');
      return () => new SubmitPage(main, route.query, showStatus);
    }
    case 'nodes': {
      const { NodesPage } = await import('./views/nodes');
      return () => new NodesPage(main, showStatus);
    }
    case 'alerts': {
      const { AlertsPage } = await import('./views/alerts');
      return () => new AlertsPage(main, showStatus, say);
    }
    case 'tokens': {
      const { TokensPage } = await import('./views/tokens');
      return () => new TokensPage(main, showStatus, say);
    }
    case 'audit': {
      const { AuditPage } = await import('./views/audit');
      return () => new AuditPage(main, route.query, showStatus);
    }
    case 'runs': {
      const { RunList } = await import('./views/runs/run_list');
      return () => new RunList(main, route.query, showStatus, say);
    }
  }
}

let opening = 0;

async function open(): Promise<void> {
  const turn = ++opening;
  const route = parseRoute(location.hash);
  header.mark(route.page);
  try {
    const build = await builderOf(route);
    if (turn === opening) show(build);
  } catch (error) {
    if (turn !== opening) return;
    showStatus('reconnecting', 'not loaded');
    say(`The page is not here: ${explain(error)}. The server may have been updated: load it again.`);
  }
}

let loggedIn = true;

async function logIn(): Promise<void> {
  if (!loggedIn) return;
  loggedIn = false;
  const refused = hasToken();
  opening += 1;
  header.stop();
  const { LoginPage } = await import('./views/login');
  show(() => new LoginPage(main, showStatus, refused, enter));
}

function enter(): void {
  loggedIn = true;
  void begin();
}

/// Opens the page at once; who owns the token may become known later.
async function begin(): Promise<void> {
  const opened = open();
  const self = await askSelf();
  if (!loggedIn) return;
  setScope(self?.scope ?? null);
  header.start(self);
  await opened;
}

const header = new SiteHeader(document.querySelector('#nav')!, document.querySelector('#tools')!, say);

startSession();
applyTheme(readTheme());
onUnauthorized(() => void logIn());
addShortcuts('Everywhere', [
  { keys: ['?'], what: 'this help', run: () => void header.openHelp() },
  { keys: ['g'], what: 'the list of runs', run: () => { location.hash = '#/runs'; } },
  { keys: ['t'], what: 'light, dark, or as the system', run: () => header.switchTheme() },
]);
document.addEventListener('keydown', onShortcutKey);
// A plain link cannot send a token: those with `download` to the API are fetched and saved by the page.
document.addEventListener('click', (event) => {
  const link = (event.target as Element | null)?.closest<HTMLAnchorElement>('a[download]');
  const path = link?.getAttribute('href') ?? '';
  if (!link || !hasToken() || !path.startsWith(`${BASE}/`)) return;
  event.preventDefault();
  void import('./api/download').then(({ download }) => download(path, link.download, say));
});
document.querySelector('[data-skip]')!.addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});
// While nobody is logged in, an address without a token is only remembered: it opens after the log-in.
window.addEventListener('hashchange', () => {
  startSession();
  if (loggedIn) void open();
  else if (hasToken()) enter();
});
void begin();
