import { request } from '../api/request';
import type { Run } from '../api/types';
import { h } from '../lib/dom';
import { RunWatch, type News } from '../lib/news';
import { hashOfRun } from '../lib/view_state';
import type { AlertItem } from './alerts';

const EVERY_MS = 15_000;
const KEY = 'babelring.notify';

/// Looks at all runs now and then, and tells by a notification of the browser that one failed or fell silent, where the
/// reader asked for that. Also counts the alerts that nobody has acknowledged.
export class Notifier {
  readonly button = h('button', { type: 'button', class: 'chip', onclick: () => void this.toggle() });
  openAlerts = 0;
  private readonly watch = new RunWatch();
  private readonly told = new Set<string>();
  private timer: ReturnType<typeof setInterval> | null = null;
  private hasAlerts = true;

  constructor(private readonly say: (text: string) => void, private readonly onAlerts: () => void) {
    this.draw();
  }

  start(): void {
    if (this.timer !== null) return;
    this.timer = setInterval(() => void this.look(), EVERY_MS);
    void this.look();
  }

  stop(): void {
    if (this.timer !== null) clearInterval(this.timer);
    this.timer = null;
  }

  private get wanted(): boolean {
    return 'Notification' in window && Notification.permission === 'granted' && localStorage.getItem(KEY) === '1';
  }

  private async toggle(): Promise<void> {
    if (this.wanted) {
      localStorage.removeItem(KEY);
      this.say('No more notifications.');
    } else if (!('Notification' in window)) {
      this.say('This browser shows no notifications here: it wants https or a loopback address.');
    } else if ((await Notification.requestPermission()) !== 'granted') {
      this.say('The browser does not allow notifications of this page: its settings can change that.');
    } else {
      localStorage.setItem(KEY, '1');
      this.say('You will be told when a run fails or falls silent, while this page is open.');
    }
    this.draw();
  }

  private draw(): void {
    this.button.textContent = 'notify';
    this.button.setAttribute('aria-pressed', String(this.wanted));
    this.button.title = 'A notification when a run fails or falls silent';
  }

  private async look(): Promise<void> {
    const signal = AbortSignal.timeout(EVERY_MS);
    try {
      if (this.wanted) {
        const { items } = (await (await request('/runs?limit=100', { signal })).json()) as { items: Run[] };
        this.watch.look(items).forEach((news) => this.tell(news));
      }
      if (this.hasAlerts) await this.countAlerts(signal);
    } catch {
      // the page that is open says so when the server is away
    }
  }

  private async countAlerts(signal: AbortSignal): Promise<void> {
    const response = await request('/alerts?limit=100', { signal }).catch(() => null);
    this.hasAlerts = response !== null;
    if (!response) return;
    const { items } = (await response.json()) as { items: AlertItem[] };
    const open = items.filter(({ acknowledged_at }) => !acknowledged_at);
    this.openAlerts = open.length;
    this.onAlerts();
  }

  private tell(news: News): void {
    const tag = `${news.run} ${news.title}`;
    if (this.told.has(tag)) return;
    this.told.add(tag);
    const notification = new Notification(news.title, { body: news.text, tag });
    notification.onclick = () => {
      window.focus();
      location.hash = hashOfRun(news.run);
    };
  }
}
