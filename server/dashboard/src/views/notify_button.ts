import { h } from '../lib/dom';
import type { Notifier } from './notifier';

const KEY = 'babelring.notify';

/// Asks the browser for permission to tell when a run fails or falls silent. The watching is fetched when it is wanted.
export class NotifyButton {
  readonly element = h('button', { type: 'button', class: 'chip', title: 'A notification when a run fails or falls silent', onclick: () => void this.toggle() }, 'notify');
  private notifier: Notifier | null = null;
  private stopped = true;

  constructor(private readonly say: (text: string) => void) {
    this.draw();
  }

  /// While somebody is logged in.
  start(): void {
    this.stopped = false;
    if (this.wanted) void this.watch();
  }

  stop(): void {
    this.stopped = true;
    this.notifier?.stop();
  }

  private get wanted(): boolean {
    return 'Notification' in window && Notification.permission === 'granted' && localStorage.getItem(KEY) === '1';
  }

  private async watch(): Promise<void> {
    this.notifier ??= new (await import('./notifier')).Notifier();
    if (!this.stopped) this.notifier.start();
  }

  private async toggle(): Promise<void> {
    if (this.wanted) {
      localStorage.removeItem(KEY);
      this.notifier?.stop();
      this.say('No more notifications.');
    } else if (!('Notification' in window) || !isSecureContext) {
      this.say('This browser shows no notifications here: it wants https or a loopback address.');
    } else if ((await Notification.requestPermission()) !== 'granted') {
      this.say('The browser does not allow notifications of this page: its settings can change that.');
    } else {
      localStorage.setItem(KEY, '1');
      this.say('You will be told when a run fails or falls silent, while this page is open.');
      await this.watch();
    }
    this.draw();
  }

  private draw(): void {
    this.element.setAttribute('aria-pressed', String(this.wanted));
  }
}
