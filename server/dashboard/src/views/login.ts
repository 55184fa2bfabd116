import '../styles/login.css';
import { explain } from '../api/client';
import { request } from '../api/request';
import { forgetToken, KEPT_DAYS, setToken, tryToken } from '../api/session';
import { h, replaceChildren, setText } from '../lib/dom';
import type { Page, Status } from './page';

/// Replaces any page while the server requires a token. The address stays, so the same page opens after the log-in.
export class LoginPage implements Page {
  private readonly input = h('input', {
    type: 'password',
    id: 'token',
    name: 'token',
    autocomplete: 'current-password',
    spellcheck: 'false',
    required: true,
    'aria-describedby': 'token-help token-problem',
  });
  private readonly keep = h('input', { type: 'checkbox', id: 'keep', checked: true });
  private readonly problem = h('p', { id: 'token-problem', class: 'problem', role: 'alert' });
  private readonly button = h('button', { type: 'submit', class: 'chip primary' }, 'Log in');

  /// `refused`: the server rejected a token as invalid or expired.
  constructor(
    private readonly root: HTMLElement,
    status: Status,
    refused: boolean,
    private readonly onDone: () => void,
  ) {
    document.title = 'Log in · Babelring';
    status('stale', 'not logged in');
    const form = h(
      'form',
      { class: 'card section login' },
      h('h1', {}, 'Log in'),
      h(
        'p',
        { id: 'token-help' },
        'The server requires a token. On its first start it printed a link with one and wrote the token to the file ',
        h('code', {}, 'admin.token'),
        ' in its data folder (',
        h('code', {}, '--data'),
        '), readable by its owner only. ',
        h('code', {}, 'server --new-admin-token'),
        ' creates another one. To show it:',
      ),
      h('pre', { tabindex: 0, 'aria-label': 'Command' }, 'cat DATA/admin.token'),
      h('label', { for: 'token' }, 'Token'),
      this.input,
      h(
        'label',
        { class: 'tick' },
        this.keep,
        ` stay logged in: this browser keeps the token for all tabs until you log out or do not use it for ${KEPT_DAYS} days`,
      ),
      this.problem,
      this.button,
    );
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      void this.submit();
    });
    replaceChildren(root, form);
    setText(this.problem, refused ? 'The token is invalid or has expired. Enter another one.' : '');
    this.input.focus();
  }

  close(): void {
    this.root.replaceChildren();
  }

  private async submit(): Promise<void> {
    const token = this.input.value.trim();
    tryToken(token);
    this.button.disabled = true;
    try {
      await request('/runs?limit=1');
      setToken(token, this.keep.checked);
      this.onDone();
    } catch (error) {
      forgetToken();
      setText(this.problem, explain(error));
      this.button.disabled = false;
      this.input.select();
    }
  }
}
