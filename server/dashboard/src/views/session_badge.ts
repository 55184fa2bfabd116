import { rightsOf } from '../api/self';
import { hasToken, logOut } from '../api/session';
import type { TokenSelf } from '../api/types';
import { h, replaceChildren } from '../lib/dom';
import { formatTime } from '../lib/format';

/// The token's scope and the log-out button, for the header.
export function showSession(place: HTMLElement, self: TokenSelf | null): void {
  if (!hasToken()) return replaceChildren(place);
  const until = self?.expires_at ? `, until ${formatTime(self.expires_at)}` : '';
  const what = self ? `Token “${self.name}” may ${rightsOf(self.scope)}${until}` : 'Logged in';
  replaceChildren(
    place,
    self
      ? h('span', { class: 'scope', title: what }, h('span', { class: 'visually-hidden' }, 'Token: '), self.scope)
      : null,
    h(
      'button',
      {
        type: 'button',
        class: 'chip',
        title: `${what}. Log out in every tab`,
        onclick: () => {
          logOut();
          location.reload();
        },
      },
      'log out',
    ),
  );
}
