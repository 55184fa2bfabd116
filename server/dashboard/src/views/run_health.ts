import type { Run } from '../api/types';
import { h, type Child } from '../lib/dom';
import { localTimes, RESUME } from '../lib/health';

type Health = Run['health'];

/// Whether the server says that it can resume the run.
export const offersResume = ({ parts }: Health): boolean =>
  parts.some(({ topic, action }) => topic === 'state' && action === RESUME);

const todo = (action: string | null): string => (action === null || action === RESUME ? '' : localTimes(action));

/// The run's health: headline, colour and action of the worst part, then the other parts. `resume` resumes the run; null if the
/// user may not. `speedBelow`: the page shows the speed in another box.
export function healthBand(
  { level, headline, action, parts }: Health,
  resume: (() => void) | null,
  speedBelow: boolean,
): HTMLElement {
  const at = parts.findIndex((part) => part.text === headline);
  const others = parts.filter(({ topic }, which) => which !== at && !(speedBelow && topic === 'speed'));
  const row = (part: Health['parts'][number]): Child =>
    h(
      'li',
      { class: `health-part level-${part.level}` },
      h('span', { class: 'health-topic' }, part.topic),
      h(
        'span',
        {},
        localTimes(part.text),
        todo(part.action) ? h('span', { class: 'muted' }, ` · ${todo(part.action)}`) : null,
      ),
    );
  return h(
    'section',
    { class: `card health level-${level}`, 'aria-label': 'Health' },
    h(
      'div',
      { class: 'health-head' },
      h(
        'div',
        {},
        h('p', { class: 'health-headline', role: 'status' }, localTimes(headline)),
        todo(action) ? h('p', { class: 'health-action' }, todo(action)) : null,
      ),
      resume ? h('button', { type: 'button', class: 'chip primary', onclick: resume }, 'Resume …') : null,
    ),
    others.length > 0 ? h('ul', { class: 'health-parts' }, others.map(row)) : null,
  );
}
