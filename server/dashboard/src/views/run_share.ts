import { explain, sendJson } from '../api/client';
import type { Run, TokenItem } from '../api/types';
import { type Child, copyText, h, setText } from '../lib/dom';
import { formatTime } from '../lib/format';
import { hashOfRun } from '../lib/routes';
import { closeDialog, formField, options, showDialog } from './parts';
import { ask } from './run_ask';

const DAY_S = 86_400;
const LIVES = [
  [String(DAY_S), 'after a day'],
  [String(7 * DAY_S), 'after 7 days'],
  [String(30 * DAY_S), 'after 30 days'],
] as const;
const ABOUT =
  'Until the link ends, anyone who has it can read this run without an account. They can read nothing else and change nothing.';

/// The address of one run with a token that reads it. Browsers send no server the part after the #.
export const shareLink = (page: string, run: string, secret: string): string =>
  `${page}${hashOfRun(run)}?share=${secret}`;

const made = (link: string, { expires_at, secret }: TokenItem): Child => {
  const copy = async (event: Event): Promise<void> =>
    setText(event.target as HTMLElement, (await copyText(link)) ? 'copied' : 'copy manually');
  const lost = 'The link was made, but the response with it was lost. Revoke it and make another one.';
  return [
    h('h2', { id: 'share-title' }, 'A link to this run'),
    secret
      ? h('p.field-row', h('code.secret', link), h('button.chip', { type: 'button', onclick: copy }, 'copy'))
      : h('p.problem', lost),
    h('p.muted', `It ends ${formatTime(expires_at)}, or when you revoke it: `, h('a', { href: '#/tokens' }, 'Tokens')),
    h('p.ask-buttons', h('button.chip', { type: 'button', onclick: closeDialog }, 'Done')),
  ];
};

/// Asks for how long, makes a token that reads this run alone, and shows the link once. Returns what went wrong, or ''.
export async function shareRun({ id, name }: Pick<Run, 'id' | 'name'>): Promise<string> {
  const life = h('select', { id: 'share-life', name: 'life' }, options(LIVES, LIVES[1][0]));
  const form = await ask({
    title: 'Share this run',
    about: ABOUT,
    fields: formField('The link ends', life),
    confirm: 'Make a link',
  });
  if (!form) return '';
  try {
    const body = { name: `link to ${name || id}`.slice(0, 100), scope: 'read', run: id };
    const token = await sendJson<TokenItem>('POST', '/tokens', {
      ...body,
      expires_in_seconds: Number(form.get('life')),
    });
    const page = `${location.origin}${location.pathname}`;
    showDialog('dialog.ask', 'share-title', made(shareLink(page, id, token!.secret ?? ''), token!));
    return '';
  } catch (error) {
    return `No link: ${explain(error)}`;
  }
}
