import { h } from '../lib/dom';

const NOTIFY_KEY = 'babelring.notify';

/// Tells by notifications of the browser when a run fails or falls silent. What does it is fetched when it is wanted.
export class NotifyButton {
  readonly element = h('button', { type: 'button', class: 'chip', title: 'A notification when a run fails or falls silent', onclick: async () => {
    const { switchNotifications } = await import('./notifier');
    if (await switchNotifications(this.say)) localStorage.setItem(NOTIFY_KEY, '1');
    else localStorage.removeItem(NOTIFY_KEY);
    this.draw();
  } }, 'notify');

  constructor(private readonly say: (text: string) => void) {
    this.draw();
  }

  /// After the log-in and the log-out.
  async set(loggedIn: boolean): Promise<void> {
    if (this.wanted) (await import('./notifier')).watchRuns(loggedIn);
  }

  private get wanted(): boolean {
    return 'Notification' in window && Notification.permission === 'granted' && localStorage.getItem(NOTIFY_KEY) === '1';
  }

  private draw(): void {
    this.element.setAttribute('aria-pressed', String(this.wanted));
  }
}
