import { request } from '../api/client';
import type { Run } from '../api/types';
import { hashOfRun } from '../lib/routes';
import { localTimes } from '../data/runs';

export type News = { run: string; title: string; text: string };

type Watched = Pick<Run, 'id' | 'name' | 'state' | 'detail' | 'stale_since' | 'restarts'> & {
  health: Pick<Run['health'], 'headline'>;
};

const BAD = new Set(['failed', 'lost']);
const EVENTS: Record<string, string> = { silent: 'stopped reporting', lost: 'was lost' };
const faultOf = (run: Watched): string => (BAD.has(run.state) ? run.state : run.stale_since ? 'silent' : '');

/// Finds runs that failed, were lost, stopped reporting or were started again after a fault since the last call. The first call returns nothing.
export class RunWatch {
  private before: Map<string, string> | null = null;
  private readonly restarts = new Map<string, number>(); // of each run that was seen

  look(runs: readonly Watched[]): News[] {
    const { before } = this;
    const now = new Map(before ?? []);
    const news: News[] = [];
    for (const run of runs) {
      const { id, name, detail } = run;
      const [is, restarts] = [faultOf(run), run.restarts];
      const tell = (event: string, text: string): unknown =>
        news.push({ run: id, title: `${name || id} ${event}`, text });
      if (before && restarts > (this.restarts.get(id) ?? 0))
        tell('was restarted after a fault', localTimes(run.health.headline));
      if (before && is !== '' && before.get(id) !== is) tell(EVENTS[is] ?? 'failed', detail);
      now.set(id, is);
      this.restarts.set(id, restarts);
    }
    this.before = now;
    return news;
  }
}

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
