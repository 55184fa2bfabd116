import type { Evidence, Verdict } from '../api/types';
import { h, type Child } from '../lib/dom';
import { formatCount, formatMs, formatPercent, formatSi, formatSignificant } from '../lib/format';

/// The box's style by the level of the verdict.
const TONES: Record<Verdict['level'], string> = { good: 'good', unknown: 'unknown', warning: 'held', bad: 'held' };

function amount({ key, value, unit }: Evidence): string {
  if (unit === 'ms') return formatMs(value);
  if (unit === 'bytes' || unit === 'bytes/s') return formatSi(value, unit.replace('bytes', 'B'));
  if (key.endsWith('_fraction') || unit === 'of updates') return `${formatPercent(value, 0)} ${unit}`.trim();
  if (unit === 'rank') return `rank ${formatCount(value)}`;
  return unit !== '' && key.endsWith(unit) ? formatCount(value) : `${formatSignificant(value)} ${unit}`.trim();
}

const evidenceRow = (evidence: Evidence): HTMLElement =>
  h(
    'tr',
    {},
    h('th', { scope: 'row' }, evidence.key.replace(/_(ms|bytes)$/, '').replaceAll('_', ' ')),
    h('td', { class: 'number' }, amount(evidence)),
    h(
      'td',
      {},
      evidence.share !== null
        ? [
            h('progress', { max: 1, value: evidence.share, 'aria-label': 'share of a step' }),
            ` ${formatPercent(evidence.share, 0)}`,
          ]
        : '',
    ),
  );

/// Two tables: the phases of an update, largest first, and the other numbers.
function evidenceTables(evidence: readonly Evidence[]): Child {
  const parts = evidence.filter(({ share }) => share !== null).sort((a, b) => b.share! - a.share!);
  const others = evidence.filter(({ share }) => share === null);
  return h(
    'div',
    { class: 'evidence' },
    [parts, others]
      .filter((rows) => rows.length > 0)
      .map((rows) => h('table', {}, h('tbody', {}, rows.map(evidenceRow)))),
  );
}

/// The verdict: its sentence, with advice and evidence behind a fold. `live`: the run trains now.
export function verdictBox(verdict: Verdict | null, live: boolean): Child {
  if (!verdict) return null;
  const { window } = verdict;
  const basis = [
    verdict.verdict === 'unknown' ? '' : `confidence ${formatPercent(verdict.confidence, 0)}`,
    window ? `updates ${formatCount(window.first_update)} to ${formatCount(window.last_update)}` : '',
  ]
    .filter(Boolean)
    .join(', ');
  const tone = live ? TONES[verdict.level] : 'unknown';
  return h(
    'section',
    { class: `card verdict verdict-${tone}`, 'aria-label': 'Speed' },
    h(
      'details',
      {},
      h(
        'summary',
        {},
        h('span', { class: 'muted' }, live ? 'Speed ' : 'Speed during training '),
        h('span', { class: 'verdict-sentence' }, verdict.sentence),
      ),
      verdict.advice ? h('p', { class: 'verdict-advice' }, verdict.advice) : null,
      basis ? h('p', { class: 'muted' }, basis) : null,
      verdict.evidence.length > 0 ? evidenceTables(verdict.evidence) : null,
    ),
  );
}

/// The time of an update by phase, from the verdict's evidence.
export interface Split {
  updateMs: number;
  exposed: number; // fraction spent waiting for other ranks and the network
  shares: ReadonlyMap<string, number>;
  basis: string;
}

const WAITS = ['network_wait_ms', 'straggler_wait_ms'];

/// Null if the verdict has no numbers yet.
export function splitOf(verdict: Verdict | null): Split | null {
  const update = verdict?.evidence.find(({ key }) => key === 'update_ms');
  if (!verdict?.window || !update || update.value === null) return null;
  const shares = new Map(
    verdict.evidence.flatMap(({ key, share }) =>
      share !== null && key !== 'update_ms' ? [[key, share] as const] : [],
    ),
  );
  return {
    updateMs: update.value,
    exposed: WAITS.reduce((sum, key) => sum + (shares.get(key) ?? 0), 0),
    shares,
    basis: `updates ${formatCount(verdict.window.first_update)} to ${formatCount(verdict.window.last_update)}`,
  };
}
