import { request } from '../api/request';
import type { Run } from '../api/types';
import { RunWatch, type News } from '../lib/news';
import { hashOfRun } from '../lib/routes';

const EVERY_MS = 15_000;

let watch = new RunWatch();
let timer: ReturnType<typeof setInterval> | null = null;

/// Looks at all runs now and then, and tells by a notification of the browser that one failed or fell silent.
export function watchRuns(on: boolean): void {
  if (on === (timer !== null)) return;
  if (timer !== null) clearInterval(timer);
  timer = null;
  if (!on) return;
  watch = new RunWatch();
  timer = setInterval(() => void look(), EVERY_MS);
  void look();
}

async function look(): Promise<void> {
  try {
    const answer = await request('/runs?limit=100', { signal: AbortSignal.timeout(EVERY_MS) });
    const { items } = (await answer.json()) as { items: Run[] };
    watch.look(items).forEach(tell);
  } catch {
    // the page that is open says so when the server is away
  }
}

function tell(news: News): void {
  const notification = new Notification(news.title, { body: news.text, tag: `${news.run} ${news.title}` });
  notification.onclick = () => {
    window.focus();
    location.hash = hashOfRun(news.run);
  };
}

/// The reader's wish: asks the browser for permission, or ends it. `say` tells what came of it; returns whether it is on now.
export async function switchNotifications(say: (text: string) => void): Promise<boolean> {
  const off = (why: string): boolean => {
    say(why);
    return false;
  };
  if (timer !== null) {
    watchRuns(false);
    return off('No more notifications.');
  }
  if (!('Notification' in window) || !isSecureContext) return off('This browser shows no notifications here: it wants https or a loopback address.');
  if ((await Notification.requestPermission()) !== 'granted') {
    return off('The browser does not allow notifications of this page: its settings can change that.');
  }
  watchRuns(true);
  say('You will be told when a run fails or falls silent, while this page is open.');
  return true;
}
