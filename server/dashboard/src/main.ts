import 'uplot/dist/uPlot.min.css';
import './styles/page.css';
import './styles/run.css';
import * as session from './api/session';
import { abortPage, askSelf, BASE, download } from './api/client';
import { setText } from './lib/dom';
import { parseRoute, type Route } from './lib/routes';
import type { Page, Place } from './views/parts';
import * as site from './views/site_header';

const REST_MS = 5000; // delay before the other pages are prefetched
type Open = (place: Place, route: never) => Page;

/// Each page is a separate file, fetched on first use or prefetched when idle.
const PAGES: Record<Route['page'], () => Promise<{ open: Open }>> = {
  runs: () => import('./views/runs/run_list'),
  run: () => import('./views/run_page'),
  compare: () => import('./views/compare_page'),
  sweep: () => import('./views/sweep_page'),
  submit: () => import('./views/runs/submit'),
  nodes: () => import('./views/nodes'),
  alerts: () => import('./views/alerts'),
  tokens: () => import('./views/tokens'),
  audit: () => import('./views/audit'),
  unknown: () => import('./views/not_found'),
};

const element = (selector: string): HTMLElement => document.querySelector<HTMLElement>(selector)!;
const root = element('#main');
const connection = element('#connection');
const notice = element('#notice');
const say = (text: string): void => setText(notice, text);
const place: Place = {
  root,
  say,
  status: (kind, text) => {
    connection.dataset['kind'] = kind;
    setText(connection, text);
  },
};

let page: Page | null = null;
let opening = 0;
let loggedIn = true;

function show(build: () => Page): void {
  const first = page === null;
  page?.close();
  abortPage();
  page = null;
  say('');
  page = build();
  if (!first && document.activeElement === document.body) root.focus({ preventScroll: true }); // the focused element was removed
}

async function open(): Promise<void> {
  const turn = ++opening;
  const route = parseRoute(location.hash);
  header.mark(route.page);
  const file = await PAGES[route.page]().catch(() => ({ open: site.openWaiting }));
  if (turn === opening) show(() => file.open(place, route as never));
}

async function logIn(): Promise<void> {
  if (!loggedIn) return;
  loggedIn = false;
  const refused = session.hasToken();
  opening += 1;
  header.stop();
  const { openLogin } = await import('./views/not_found');
  show(() => openLogin(place, refused, enter));
}

function enter(): void {
  loggedIn = true;
  void begin();
}

/// Opens the page at once. The token's owner and scope may become known later.
async function begin(): Promise<void> {
  const opened = open();
  const self = await askSelf();
  if (!loggedIn) return;
  session.setScope(self?.scope ?? null);
  header.start(self);
  await opened;
}

/// Prefetches all pages, so that they open even while the server does not answer.
async function fetchAllPages(): Promise<void> {
  for (const fetch of [...Object.values(PAGES), () => import('./views/run_sections')])
    await fetch().catch(() => undefined);
}

const header = new site.SiteHeader(element('#nav'), element('#tools'), say);

const goToRuns = (): void => {
  location.hash = '#/runs';
};

session.startSession();
site.applyTheme(site.readTheme());
session.onUnauthorized(() => void logIn());
session.followLogOut(() => void logIn());
session.followLogIn(() => !loggedIn, enter);
site.addShortcuts('Everywhere', [
  { keys: ['?'], what: 'this help', run: site.showHelp },
  { keys: ['g'], what: 'the list of runs', run: goToRuns },
  { keys: ['t'], what: 'theme: light, dark, or follow the system', run: () => header.switchTheme() },
]);
document.addEventListener('keydown', site.onShortcutKey);
// A plain link cannot send a token, so the page fetches and saves `download` links to the API itself.
document.addEventListener('click', (event) => {
  const link = (event.target as Element | null)?.closest<HTMLAnchorElement>('a[download]');
  const path = link?.getAttribute('href') ?? '';
  if (!link || !session.hasToken() || !path.startsWith(`${BASE}/`)) return;
  event.preventDefault();
  void download(path, link.download, say);
});
element('[data-skip]').addEventListener('click', (event) => {
  event.preventDefault();
  root.focus();
});
// While nobody is logged in, an address without a token opens only after the log-in.
window.addEventListener('hashchange', () => {
  session.startSession();
  if (loggedIn) void open();
  else if (session.hasToken()) enter();
});
site.watchConnection(element('#offline'));
void begin().then(() => setTimeout(() => void fetchAllPages(), REST_MS));
