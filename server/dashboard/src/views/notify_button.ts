import { h, setText } from '../lib/dom';

const NOTIFY_KEY = 'babelring.notify';

const WHAT = 'Browser notification when a run fails or stops reporting while this page is open';

/// Switches browser notifications on and off. Their code is fetched on first use.
export class NotifyButton {
  readonly element = h('button', {
    type: 'button',
    class: 'chip',
    hidden: true,
    onclick: async () => {
      const { switchNotifications } = await import('./notifier');
      if (await switchNotifications(this.say)) localStorage.setItem(NOTIFY_KEY, '1');
      else localStorage.removeItem(NOTIFY_KEY);
      this.draw();
    },
  });

  constructor(private readonly say: (text: string) => void) {
    this.draw();
  }

  /// Called after log-in and log-out.
  async set(loggedIn: boolean): Promise<void> {
    this.element.hidden = !loggedIn;
    if (this.wanted) (await import('./notifier')).watchRuns(loggedIn);
  }

  private get wanted(): boolean {
    return (
      'Notification' in window && Notification.permission === 'granted' && localStorage.getItem(NOTIFY_KEY) === '1'
    );
  }

  private draw(): void {
    const state = this.wanted ? 'on' : 'off';
    this.element.setAttribute('aria-pressed', String(this.wanted));
    this.element.title = `${WHAT}: ${state}`;
    setText(this.element, `notify: ${state}`);
  }
}
