import type { RunData } from '../data/run_data';
import { otherSets, setName } from '../lib/eval_sets';
import { h, type Child } from '../lib/dom';
import {
  DASH,
  formatAge,
  formatCount,
  formatDateTime,
  formatDuration,
  formatFixed,
  formatLoss,
  formatMs,
  formatNames,
  formatPercent,
  formatSi,
  formatSignificant,
} from '../lib/format';
import { ageMs, staleForMs } from '../lib/freshness';
import { hashOfSweep } from '../lib/routes';
import { isLive, percentDone, timeLeftUntil } from '../lib/health';
import type { Run } from '../api/types';
import { splitOf, type Split } from './run_verdict';

/// The run's state as a coloured badge. A running run that stopped reporting is shown as stale.
export function stateBadge(run: Run, atMs: number, nowMs: number): HTMLElement {
  const silentMs = staleForMs(run, atMs, nowMs);
  if (silentMs === null) return h('span', { class: `state state-${run.state}` }, run.state);
  return h('span', { class: 'state state-stale' }, `stale for ${formatDuration(silentMs / 1000)}`);
}

const MAX_TESTS = 3;
const KEPT_MS = 7 * 86_400_000; // a deleted run can be restored for this time

const tile = (label: string, value: Child, detail: Child = null, extra: Child = null): HTMLElement =>
  h(
    'div',
    { class: 'tile' },
    h('dt', {}, label),
    h('dd', {}, h('span', { class: 'value' }, value), extra, h('span', { class: 'detail' }, detail)),
  );

const SPLIT_PARTS: readonly [key: string, part: string][] = [
  ['data_ms', 'data_ms'],
  ['forward_ms', 'forward_ms'],
  ['backward_ms', 'backward_ms'],
  ['network_wait_ms', 'exposed_communication_ms'],
  ['straggler_wait_ms', 'exposed_communication_ms'],
  ['optimizer_ms', 'optimizer_ms'],
  ['evaluation_ms', 'other_ms'],
  ['checkpoint_ms', 'other_ms'],
  ['other_ms', 'other_ms'],
];

function splitBar({ shares }: Split): HTMLElement {
  const bar = h('span', { class: 'split-bar', 'aria-hidden': 'true' });
  for (const [key, part] of SPLIT_PARTS) {
    const piece = h('span', { class: `part part-${part}` });
    piece.style.flexGrow = String(Math.max(0, shares.get(key) ?? 0));
    bar.append(piece);
  }
  return bar;
}

function progress(data: RunData, run: Run, nowMs: number): HTMLElement {
  const { fraction, end } = run.progress;
  const done = percentDone(run);
  const detail = [
    done && end ? `${done} of ${end}` : done,
    run.epoch === null ? '' : `epoch ${formatFixed(run.epoch, 2)}`,
    isLive(run, data.runAtMs, nowMs) ? timeLeftUntil(run, nowMs) : '',
  ]
    .filter(Boolean)
    .join(' · ');
  return tile(
    'Update',
    [formatCount(run.update), run.max_updates > 0 ? h('small', {}, ` / ${formatCount(run.max_updates)}`) : null],
    detail,
    fraction === null ? null : h('progress', { max: 1, value: fraction, 'aria-label': 'Training progress' }),
  );
}

/// The smoothed loss, as in the chart's legend, with the loss of the newest update.
function learning(data: RunData, run: Run): HTMLElement {
  if (run.emulated) return tile('Training loss', DASH, 'emulated: waits instead of computing');
  const { trend } = data;
  const validation = run.last_eval
    ? `validation ${formatLoss(run.last_eval.loss)} at ${formatCount(run.last_eval.update)}`
    : 'not validated yet';
  const broken = run.loss === null && run.update > 0;
  const smooth = broken ? null : data.smoothedLoss;
  const detail =
    `${broken ? 'not finite' : smooth === run.loss ? '' : `newest ${formatLoss(run.loss)}`} · ${validation}`.replace(
      /^ · /,
      '',
    );
  if (!trend || broken) return tile('Training loss', formatLoss(smooth), detail);
  const way = !trend.certain ? 'flat' : trend.change < 0 ? 'falling' : 'rising';
  const mark = { flat: '→', falling: '↓', rising: '↑' }[way];
  return tile(
    'Training loss',
    [
      formatLoss(smooth),
      h(
        'small',
        { class: `trend trend-${way}` },
        ` ${mark} ${way}${trend.certain ? ` ${formatSignificant(Math.abs(trend.change), 2)}` : ''}`,
      ),
    ],
    detail,
  );
}

/// The newest scores on each set other than the validation set.
function tests(data: RunData): (HTMLElement | null)[] {
  return otherSets(data.evals)
    .slice(0, MAX_TESTS)
    .map((row) => {
      const at = `at update ${formatCount(row.update)}`;
      return row.sacrebleu === null
        ? tile(`Loss on ${setName(row.set)}`, formatLoss(row.loss), at)
        : tile(
            `sacreBLEU on ${setName(row.set)}`,
            formatFixed(row.sacrebleu, 2),
            row.chrf === null ? at : `chrF ${formatFixed(row.chrf, 2)} · ${at}`,
          );
    });
}

/// Whether a run trains on generated sequences, which nobody translates.
const ofSequences = ({ config }: Run): boolean => /^task: gssm$/m.test(config ?? '');

/// The best evaluation by BLEU if translations are scored, otherwise by validation loss.
function best(run: Run): HTMLElement {
  const { best: found, last_eval: last } = run;
  const none = run.emulated ? 'never evaluated' : 'not evaluated yet';
  if (!found) return tile(ofSequences(run) ? 'Best validation loss' : 'Best sacreBLEU', DASH, none);
  const at = `at update ${formatCount(found.update)}`;
  if (found.sacrebleu === null) {
    const excess = typeof found.excess === 'number' ? ` · excess ${formatLoss(found.excess)} nats` : '';
    const detail = ofSequences(run) ? `${at}${excess}` : `${at} · no translation scored`;
    return tile('Best validation loss', formatLoss(found.loss), detail);
  }
  return tile(
    'Best sacreBLEU',
    formatFixed(found.sacrebleu, 2),
    last?.sacrebleu ? `${at} · last ${formatFixed(last.sacrebleu, 2)}` : at,
  );
}

function facts(data: RunData, run: Run, nowMs: number): string {
  const end = run.finished_at === null ? nowMs : Date.parse(run.finished_at);
  const ranks = run.world_size > 0 ? `${run.world_size} ${run.world_size === 1 ? 'rank' : 'ranks'}` : '';
  const began = run.update > 0 || run.hosts.length > 0;
  return [
    `${ranks}${run.hosts.length > 0 ? ` on ${formatNames(run.hosts, 4)}` : ''}`,
    run.parameters > 0 ? `${formatSi(run.parameters)} parameters` : '',
    `${run.finished_at ? 'ran' : began ? 'running for' : 'waiting for'} ${formatDuration((end - data.startMs) / 1000)}`,
    !began ? '' : `last record ${formatAge(ageMs(run.record_age_ms, data.runAtMs, nowMs) / 1000)}`,
    run.attempt > 1 ? `attempt ${run.attempt}` : '',
  ]
    .filter(Boolean)
    .join(' · ');
}

/// Name, state and facts in one line.
export function runTitle(data: RunData, nowMs: number): HTMLElement {
  const run = data.run!;
  return h(
    'div',
    { class: 'run-title' },
    h('h1', {}, run.name || run.id),
    stateBadge(run, data.runAtMs, nowMs),
    run.emulated ? h('span', { class: 'label' }, 'emulated') : null,
    Object.entries(run.labels ?? {}).map(([name, value]) =>
      name === 'sweep'
        ? h('a', { class: 'label', href: hashOfSweep(value) }, `${name}=${value}`)
        : h('span', { class: 'label' }, value ? `${name}=${value}` : name),
    ),
    run.deleted_at
      ? h(
          'p',
          { class: 'problem' },
          `Deleted: hidden from all lists, removed permanently on ${formatDateTime(Date.parse(run.deleted_at) + KEPT_MS)}.`,
        )
      : null,
    h('p', { class: 'muted' }, facts(data, run, nowMs)),
    run.notes ? h('p', {}, run.notes) : null,
  );
}

/// The key figures of the run.
export function runTiles(data: RunData, nowMs: number): HTMLElement {
  const run = data.run!;
  const split = splitOf(data.verdict);
  return h(
    'dl',
    { class: 'tiles' },
    progress(data, run, nowMs),
    learning(data, run),
    best(run),
    tests(data),
    tile('Target tokens/s', formatSi(data.series.recentMean('target_tokens_per_second')), 'all ranks, recent mean'),
    tile(
      'Exposed communication',
      split ? formatPercent(split.exposed) : DASH,
      split ? `of a ${formatMs(split.updateMs)} update · ${split.basis}` : 'not measured yet',
      split ? splitBar(split) : null,
    ),
  );
}
