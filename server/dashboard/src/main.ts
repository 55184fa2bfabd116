import 'uplot/dist/uPlot.min.css';
import './styles/page.css';
import './styles/run.css';
import { abortPage, BASE } from './api/request';
import { askSelf } from './api/self';
import { followLogIn, followLogOut, hasToken, onUnauthorized, setScope, startSession } from './api/session';
import { setText } from './lib/dom';
import { addShortcuts, onShortcutKey } from './lib/keys';
import { parseRoute } from './lib/routes';
import { applyTheme, readTheme } from './lib/theme_choice';
import { builderOf, fetchAllPages, loginPage, type Place } from './pages';
import { watchConnection } from './views/offline';
import type { Page, StatusKind } from './views/page';
import { SiteHeader } from './views/site_header';
import { WaitingPage } from './views/waiting';

const REST_MS = 5000; // delay before the other pages are prefetched

const main = document.querySelector<HTMLElement>('#main')!;
const connection = document.querySelector<HTMLElement>('#connection')!;
const notice = document.querySelector<HTMLElement>('#notice')!;

let page: Page | null = null;

function showStatus(kind: StatusKind, text: string): void {
  connection.dataset['kind'] = kind;
  setText(connection, text);
}

const say = (text: string): void => setText(notice, text);
const place: Place = { root: main, status: showStatus, say };

function show(build: () => Page): void {
  const first = page === null;
  page?.close();
  abortPage();
  page = null;
  say('');
  page = build();
  if (!first && document.activeElement === document.body) main.focus({ preventScroll: true }); // the focused element was removed
}

let opening = 0;

async function open(): Promise<void> {
  const turn = ++opening;
  const route = parseRoute(location.hash);
  header.mark(route.page);
  const build = await builderOf(route, place).catch(() => () => new WaitingPage(main, showStatus));
  if (turn === opening) show(build);
}

let loggedIn = true;

async function logIn(): Promise<void> {
  if (!loggedIn) return;
  loggedIn = false;
  const refused = hasToken();
  opening += 1;
  header.stop();
  const { LoginPage } = await loginPage();
  show(() => new LoginPage(main, showStatus, refused, enter));
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
  setScope(self?.scope ?? null);
  header.start(self);
  await opened;
}

const header = new SiteHeader(document.querySelector('#nav')!, document.querySelector('#tools')!, say);

startSession();
applyTheme(readTheme());
onUnauthorized(() => void logIn());
followLogOut(() => void logIn());
followLogIn(() => !loggedIn, enter);
addShortcuts('Everywhere', [
  { keys: ['?'], what: 'this help', run: () => void header.openHelp() },
  {
    keys: ['g'],
    what: 'the list of runs',
    run: () => {
      location.hash = '#/runs';
    },
  },
  { keys: ['t'], what: 'theme: light, dark, or follow the system', run: () => header.switchTheme() },
]);
document.addEventListener('keydown', onShortcutKey);
// A plain link cannot send a token, so the page fetches and saves `download` links to the API itself.
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
// While nobody is logged in, an address without a token opens only after the log-in.
window.addEventListener('hashchange', () => {
  startSession();
  if (loggedIn) void open();
  else if (hasToken()) enter();
});
watchConnection(document.querySelector('#offline')!);
void begin().then(() => setTimeout(() => void fetchAllPages(), REST_MS));
