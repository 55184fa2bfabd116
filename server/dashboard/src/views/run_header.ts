import { PARTS, type RunData } from '../data/run_data';
import { h, type Child } from '../lib/dom';
import { DASH, formatAge, formatClock, formatCount, formatDateTime, formatDuration, formatFixed, formatMs, formatNames, formatPercent, formatSi, formatSignificant } from '../lib/format';
import { ageMs, staleForMs } from '../lib/freshness';
import type { Trend } from '../lib/trend';
import type { Run } from '../api/types';

/// What the state is called and how it is coloured; a running run that fell silent is said to be stale.
export function stateBadge(run: Run, atMs: number, nowMs: number): HTMLElement {
  const silentMs = staleForMs(run, atMs, nowMs);
  if (silentMs === null) return h('span', { class: `state state-${run.state}` }, run.state);
  return h('span', { class: 'state state-stale' }, `stale for ${formatDuration(silentMs / 1000)}`);
}

const KEPT_MS = 7 * 86_400_000;  // so long can a deletion be taken back

const tile = (label: string, value: Child, detail: Child = null, extra: Child = null): HTMLElement =>
  h('div', { class: 'tile' }, h('dt', {}, label), h('dd', {}, h('span', { class: 'value' }, value), extra,
    h('span', { class: 'detail' }, detail)));

function splitBar(data: RunData, whole: number): HTMLElement {
  const bar = h('span', { class: 'split-bar', 'aria-hidden': 'true' });
  for (const part of PARTS) {
    const piece = h('span', { class: `part part-${part}` });
    piece.style.flexGrow = String(Math.max(0, (data.series.recentMean(part) ?? 0) / whole));
    bar.append(piece);
  }
  return bar;
}

/// When it will be done: how long that is, and the clock time of it.
function remaining(run: Run, nowMs: number): string {
  if (run.eta_seconds === null || run.finished_at !== null || run.state !== 'running') return '';
  const endMs = nowMs + run.eta_seconds * 1000;
  const when = run.eta_seconds < 72_000 ? formatClock(endMs).slice(0, 5) : formatDateTime(endMs);
  return `${formatDuration(run.eta_seconds)} left (${when})`;
}

function progress(run: Run, nowMs: number): HTMLElement {
  const bounded = run.max_updates > 0;
  const detail = [run.epoch === null ? '' : `epoch ${formatFixed(run.epoch, 2)}`, remaining(run, nowMs)].filter(Boolean).join(' · ');
  return tile('Update', [formatCount(run.update), bounded ? h('small', {}, ` / ${formatCount(run.max_updates)}`) : null], detail,
    bounded ? h('progress', { max: run.max_updates, value: run.update, 'aria-label': 'Updates done' }) : null);
}

function learning(run: Run, trend: Trend | null): HTMLElement {
  const validation = run.last_eval ? `validation ${formatSignificant(run.last_eval.loss)} at ${formatCount(run.last_eval.update)}` : 'not validated yet';
  if (!trend) return tile('Training loss', formatSignificant(run.loss), validation);
  const way = !trend.certain ? 'flat' : trend.change < 0 ? 'falling' : 'rising';
  const mark = { flat: '→', falling: '↓', rising: '↑' }[way];
  return tile('Training loss', [formatSignificant(run.loss),
    h('small', { class: `trend trend-${way}` }, ` ${mark} ${way}${trend.certain ? ` ${formatSignificant(Math.abs(trend.change), 2)}` : ''}`)], validation);
}

/// By BLEU where translations are scored, else by the loss on the held-out set.
function best({ best: found, last_eval: last }: Run): HTMLElement {
  if (!found) return tile('Best sacreBLEU', DASH, 'not evaluated yet');
  const at = `at update ${formatCount(found.update)}`;
  if (found.sacrebleu === null) return tile('Best validation loss', formatSignificant(found.loss), `${at} · no translation scored`);
  return tile('Best sacreBLEU', formatFixed(found.sacrebleu, 2), last?.sacrebleu ? `${at} · last ${formatFixed(last.sacrebleu, 2)}` : at);
}

function facts(data: RunData, run: Run, nowMs: number): string {
  const end = run.finished_at === null ? nowMs : Date.parse(run.finished_at);
  const ranks = run.world_size > 0 ? `${run.world_size} ${run.world_size === 1 ? 'rank' : 'ranks'}` : '';
  const began = run.update > 0 || run.hosts.length > 0;
  return [`${ranks}${run.hosts.length > 0 ? ` on ${formatNames(run.hosts, 4)}` : ''}`, run.parameters > 0 ? `${formatSi(run.parameters)} parameters` : '',
    `${run.finished_at ? 'ran' : began ? 'running for' : 'waiting for'} ${formatDuration((end - data.startMs) / 1000)}`,
    !began ? '' : `last record ${formatAge(ageMs(run.record_age_ms, data.runAtMs, nowMs) / 1000)}`,
    run.attempt > 1 ? `attempt ${run.attempt}` : '', run.detail].filter(Boolean).join(' · ');
}

/// Name, state and facts in one line.
export function runTitle(data: RunData, nowMs: number): HTMLElement {
  const run = data.run!;
  return h('div', { class: 'run-title' }, h('h1', {}, run.name || run.id), stateBadge(run, data.runAtMs, nowMs),
    Object.entries(run.labels ?? {}).map(([name, value]) => h('span', { class: 'label' }, value ? `${name}=${value}` : name)),
    run.deleted_at ? h('p', { class: 'problem' }, `Deleted: in no list any more, and gone for good on ${formatDateTime(Date.parse(run.deleted_at) + KEPT_MS)}.`) : null,
    h('p', { class: 'muted' }, facts(data, run, nowMs)), run.notes ? h('p', {}, run.notes) : null);
}

/// The figures that tell in five seconds how the run is.
export function runTiles(data: RunData, nowMs: number): HTMLElement {
  const run = data.run!;
  const stepMs = data.series.recentMean('step_ms');
  const exposed = data.series.recentMean('exposed_communication_ms');
  return h('dl', { class: 'tiles' }, progress(run, nowMs), learning(run, data.trend),
    best(run),
    tile('Target tokens/s', formatSi(data.series.recentMean('target_tokens_per_second')), 'all ranks, recent mean'),
    tile('Exposed communication', stepMs && exposed !== null ? formatPercent(exposed / stepMs) : '–',
      stepMs ? `of a ${formatMs(stepMs)} step` : 'no step yet', stepMs ? splitBar(data, stepMs) : null));
}
