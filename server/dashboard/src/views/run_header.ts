import { PARTS, type RunData } from '../data/run_data';
import { h, type Child } from '../lib/dom';
import { formatAge, formatCount, formatDuration, formatFixed, formatMs, formatNames, formatPercent, formatSi, formatSignificant } from '../lib/format';
import { ageMs, staleForMs } from '../lib/freshness';
import type { Run } from '../api/types';

/// What the state is called and how it is coloured; a running run that fell silent is said to be stale.
export function stateBadge(run: Run, atMs: number, nowMs: number): HTMLElement {
  const silentMs = staleForMs(run, atMs, nowMs);
  if (silentMs === null) return h('span', { class: `state state-${run.state}` }, run.state);
  return h('span', { class: 'state state-stale' }, `stale for ${formatDuration(silentMs / 1000)}`);
}

const tile = (label: string, value: Child, detail: Child = null, extra: Child = null): HTMLElement =>
  h('div', { class: 'tile' }, h('dt', {}, label), h('dd', {}, h('span', { class: 'value' }, value), extra,
    h('span', { class: 'detail' }, detail)));

/// Means over the last rows shown, so that one slow step does not shake the figure.
function recent(run: RunData, key: string): number | null {
  const values = run.get(key).avg.slice(-50).filter((value) => value !== null);
  return values.length > 0 ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
}

function splitBar(data: RunData, whole: number): HTMLElement {
  const bar = h('span', { class: 'split-bar', 'aria-hidden': 'true' });
  for (const part of PARTS) {
    const piece = h('span', { class: `part part-${part}` });
    piece.style.flexGrow = String(Math.max(0, (recent(data, part) ?? 0) / whole));
    bar.append(piece);
  }
  return bar;
}

function progress(run: Run): HTMLElement {
  const bounded = run.max_updates > 0;
  const detail = [run.epoch === null ? '' : `epoch ${formatFixed(run.epoch, 2)}`,
    run.eta_seconds === null ? '' : `${formatDuration(run.eta_seconds)} left`].filter(Boolean).join(' · ');
  return tile('Update', [formatCount(run.update), bounded ? h('small', {}, ` / ${formatCount(run.max_updates)}`) : null], detail,
    bounded ? h('progress', { max: run.max_updates, value: run.update, 'aria-label': 'Updates done' }) : null);
}

/// The figures that tell in five seconds how the run is.
export function runHeader(data: RunData, nowMs: number): HTMLElement {
  const run = data.run!;
  const stepMs = recent(data, 'step_ms');
  const exposed = recent(data, 'exposed_communication_ms');
  const end = run.finished_at === null ? nowMs : Date.parse(run.finished_at);
  return h('section', { class: 'run-header', 'aria-label': 'Summary' },
    h('div', { class: 'run-title' }, h('h1', {}, run.name || run.id), stateBadge(run, data.runAtMs, nowMs),
      h('p', { class: 'muted' }, [`${run.world_size} ${run.world_size === 1 ? 'rank' : 'ranks'} on ${formatNames(run.hosts, 4)}`,
        `${formatSi(run.parameters)} parameters`, `${run.finished_at ? 'ran' : 'running for'} ${formatDuration((end - data.startMs) / 1000)}`,
        `last record ${formatAge(ageMs(run.record_age_ms, data.runAtMs, nowMs) / 1000)}`,
        run.attempt > 1 ? `attempt ${run.attempt}` : '', run.detail].filter(Boolean).join(' · '))),
    h('dl', { class: 'tiles' },
      progress(run),
      tile('Training loss', formatSignificant(run.loss),
        run.last_eval ? `validation ${formatSignificant(run.last_eval.loss)} at ${formatCount(run.last_eval.update)}` : 'not validated yet'),
      tile('Best sacreBLEU', formatFixed(run.best?.sacrebleu, 2), run.best ? `at update ${formatCount(run.best.update)}` : 'not evaluated yet'),
      tile('Target tokens/s', formatSi(recent(data, 'target_tokens_per_second')), 'all ranks, recent mean'),
      tile('Exposed communication', stepMs && exposed !== null ? formatPercent(exposed / stepMs) : '–',
        `of a ${formatMs(stepMs)} step`, stepMs ? splitBar(data, stepMs) : null)));
}
