import type { Evidence, Verdict } from '../api/types';
import { h, type Child } from '../lib/dom';
import { formatCount, formatMs, formatPercent, formatSi, formatSignificant } from '../lib/format';

const GOOD = new Set(['healthy', 'compute_bound']);

function amount({ key, value, unit }: Evidence): string {
  if (unit === 'ms') return formatMs(value);
  if (unit === 'bytes' || unit === 'bytes/s') return formatSi(value, unit.replace('bytes', 'B'));
  if (key.endsWith('_fraction') || unit === 'of updates') return `${formatPercent(value, 0)} ${unit}`.trim();
  if (unit === 'rank') return `rank ${formatCount(value)}`;
  return unit !== '' && key.endsWith(unit) ? formatCount(value) : `${formatSignificant(value)} ${unit}`.trim();
}

const evidenceRow = (evidence: Evidence): HTMLElement => h('tr', {}, h('th', { scope: 'row' }, evidence.key.replace(/_(ms|bytes)$/, '').replaceAll('_', ' ')),
  h('td', { class: 'number' }, amount(evidence)),
  h('td', {}, evidence.share !== null ? [h('progress', { max: 1, value: evidence.share, 'aria-label': 'share of a step' }),
    ` ${formatPercent(evidence.share, 0)}`] : ''));

/// Parts of an update's time with the largest first, and beside them the other numbers.
function evidenceTables(evidence: readonly Evidence[]): Child {
  const parts = evidence.filter(({ share }) => share !== null).sort((a, b) => b.share! - a.share!);
  const others = evidence.filter(({ share }) => share === null);
  return h('div', { class: 'evidence' }, [parts, others].filter((rows) => rows.length > 0).map((rows) =>
    h('table', {}, h('tbody', {}, rows.map(evidenceRow)))));
}

/// What holds the run back, in one sentence, with the numbers it rests on behind a fold.
export function verdictBox(verdict: Verdict | null): Child {
  if (!verdict) return null;
  const { window } = verdict;
  const basis = [verdict.verdict === 'unknown' ? '' : `${formatPercent(verdict.confidence, 0)} sure`,
    window ? `updates ${formatCount(window.first_update)} to ${formatCount(window.last_update)}` : ''].filter(Boolean).join(', ');
  const tone = verdict.verdict === 'unknown' ? 'unknown' : GOOD.has(verdict.verdict) ? 'good' : 'held';
  return h('section', { class: `card verdict verdict-${tone}`, 'aria-label': 'Verdict' },
    h('p', { class: 'verdict-sentence' }, verdict.sentence),
    verdict.advice ? h('p', { class: 'verdict-advice' }, verdict.advice) : null,
    verdict.evidence.length > 0 ? h('details', {}, h('summary', { class: 'muted' }, `evidence${basis ? ` (${basis})` : ''}`),
      evidenceTables(verdict.evidence)) : basis ? h('p', { class: 'muted' }, basis) : null);
}
