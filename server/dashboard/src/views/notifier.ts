import { request } from '../api/request';
import type { Run } from '../api/types';
import { RunWatch, type News } from '../lib/news';
import { hashOfRun } from '../lib/routes';

const EVERY_MS = 15_000;

let watch = new RunWatch();
let timer: ReturnType<typeof setInterval> | null = null;

/// Polls all runs and shows a browser notification when one fails, stops reporting or is restarted after a fault.
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
    // the open page shows that the server does not answer
  }
}

function tell(news: News): void {
  const notification = new Notification(news.title, { body: news.text, tag: `${news.run} ${news.title}` });
  notification.onclick = () => {
    window.focus();
    location.hash = hashOfRun(news.run);
  };
}

/// Switches notifications off, or asks the browser for permission and switches them on. Reports the result by `say`; returns whether they are on.
export async function switchNotifications(say: (text: string) => void): Promise<boolean> {
  const off = (reason: string): boolean => {
    say(reason);
    return false;
  };
  if (timer !== null) {
    watchRuns(false);
    return off('Notifications are off.');
  }
  if (!('Notification' in window) || !isSecureContext)
    return off('This browser allows notifications only over https or on a loopback address.');
  if ((await Notification.requestPermission()) !== 'granted') {
    return off('The browser blocks notifications from this page. Allow them in its settings.');
  }
  watchRuns(true);
  say('You will be notified when a run fails, stops reporting or is restarted after a fault while this page is open.');
  return true;
}
