import { request } from '../api/request';
import type { Run } from '../api/types';
import { RunWatch, type News } from '../lib/news';
import { hashOfRun } from '../lib/view_state';

const EVERY_MS = 15_000;

/// Looks at all runs now and then, and tells by a notification of the browser that one failed or fell silent.
export class Notifier {
  private readonly watch = new RunWatch();
  private timer: ReturnType<typeof setInterval> | null = null;

  start(): void {
    if (this.timer !== null) return;
    this.timer = setInterval(() => void this.look(), EVERY_MS);
    void this.look();
  }

  stop(): void {
    if (this.timer !== null) clearInterval(this.timer);
    this.timer = null;
  }

  private async look(): Promise<void> {
    try {
      const answer = await request('/runs?limit=100', { signal: AbortSignal.timeout(EVERY_MS) });
      const { items } = (await answer.json()) as { items: Run[] };
      this.watch.look(items).forEach((news) => this.tell(news));
    } catch {
      // the page that is open says so when the server is away
    }
  }

  private tell(news: News): void {
    const notification = new Notification(news.title, { body: news.text, tag: `${news.run} ${news.title}` });
    notification.onclick = () => {
      window.focus();
      location.hash = hashOfRun(news.run);
    };
  }
}
