import { explain } from '../api/client';
import { may } from '../api/session';
import type { Evidence, Run, Verdict } from '../api/types';
import type { RunData } from '../data/run_data';
import { type Child, h } from '../lib/dom';
import * as format from '../lib/format';
import { formatCount, formatFixed, formatLoss, formatMs, formatPercent, formatSi } from '../lib/format';
import { hashOfSweep } from '../lib/routes';
import * as runs from '../data/runs';
import { splitBar, stateBadge, status } from './parts';
import type { ActionId } from './run_ask';

const joined = (parts: readonly (string | false | null)[], by = ' · '): string => parts.filter(Boolean).join(by);

function amount({ key, value, unit }: Evidence): string {
  if (unit === 'ms') return formatMs(value);
  if (unit === 'bytes' || unit === 'bytes/s') return formatSi(value, unit.replace('bytes', 'B'));
  if (key.endsWith('_fraction') || unit === 'of updates') return `${formatPercent(value, 0)} ${unit}`.trim();
  if (unit === 'rank') return `rank ${formatCount(value)}`;
  if (unit !== '' && key.endsWith(unit)) return formatCount(value);
  return `${format.formatSignificant(value)} ${unit}`.trim();
}

function evidenceRow(evidence: Evidence): HTMLElement {
  const { key, share } = evidence;
  const bar = h('progress', { max: 1, value: share, 'aria-label': 'share of a step' });
  return h(
    'tr',
    h('th', { scope: 'row' }, key.replace(/_(ms|bytes)$/, '').replaceAll('_', ' ')),
    h('td.number', amount(evidence)),
    h('td', share !== null && [bar, ` ${formatPercent(share, 0)}`]),
  );
}

/// The phases of an update, largest first, then the other numbers.
const evidenceTable = (evidence: readonly Evidence[]): Child =>
  h('table.evidence', h('tbody', evidence.toSorted((a, b) => (b.share ?? -1) - (a.share ?? -1)).map(evidenceRow)));

const windowText = ({ first_update, last_update }: NonNullable<Verdict['window']>): string =>
  `updates ${formatCount(first_update)} to ${formatCount(last_update)}`;

/// The time of an update by phase, from the verdict's evidence; `exposed`: fraction spent waiting for other ranks and the network.
export type Split = { updateMs: number; exposed: number; shares: ReadonlyMap<string, number>; basis: string };

const WAITS = ['network_wait_ms', 'straggler_wait_ms'];

/// Null if the verdict has no numbers yet.
export function splitOf(verdict: Verdict | null): Split | null {
  const update = verdict?.evidence.find(({ key }) => key === 'update_ms');
  if (!verdict?.window || !update || update.value === null) return null;
  const parts = verdict.evidence.flatMap(({ key, share }) =>
    share !== null && key !== 'update_ms' ? [[key, share] as const] : [],
  );
  const shares = new Map(parts);
  const exposed = WAITS.reduce((sum, key) => sum + (shares.get(key) ?? 0), 0);
  return { updateMs: update.value, exposed, shares, basis: windowText(verdict.window) };
}

type Health = Run['health'];

/// Whether the server says that it can resume the run.
export const offersResume = ({ parts }: Health): boolean =>
  parts.some(({ topic, action }) => topic === 'state' && action === runs.RESUME);

const todo = (action: string | null): string =>
  action === null || action === runs.RESUME ? '' : runs.localTimes(action);

type HealthPart = Health['parts'][number];
const capitalised = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/// The part of the health that a verdict explains; undefined if the run is over. The two are asked for one after the other: with
/// the same level, the verdict's sentence stands for the part's, so that its numbers are those of the evidence.
export function speedPartOf({ parts }: Health, verdict: Verdict | null): HealthPart | undefined {
  const topic = verdict?.verdict === 'host_contended' ? 'hosts' : 'speed';
  const part = verdict ? parts.find((each) => each.topic === topic) : undefined;
  return part && part.level === verdict!.level ? { ...part, text: capitalised(verdict!.sentence) } : part;
}

/// The evidence of the verdict, folded; with its sentence and advice where the band has not `said` them. `live`: the run trains now.
function speedFold(
  { verdict, level, window, sentence, advice, evidence, confidence }: Verdict,
  live: boolean,
  said: boolean,
): Child {
  const sure = verdict !== 'unknown' && `confidence ${formatPercent(confidence, 0)}`;
  const basis = joined([sure, window && windowText(window)], ', ');
  if (said && evidence.length === 0) return null;
  const topic = h('span.health-topic', live ? 'Speed' : 'Speed during training');
  const marked = h(`span.health-part.level-${live ? level : 'unknown'}`, topic, h('span.verdict-sentence', sentence));
  return h(
    'details.verdict',
    h('summary', said ? h('span.muted', 'Why') : marked),
    advice && !said ? h('p.verdict-advice', advice) : null,
    basis ? h('p.muted', basis) : null,
    evidence.length > 0 && evidenceTable(evidence),
  );
}

/// The run's health: headline, colour and action of the worst part, then the other parts, and what the verdict on its speed rests
/// on. Each sentence is there once. `resume` resumes the run; null if the user may not. `live`: the run trains now.
export function healthBand(
  health: Health,
  verdict: Verdict | null,
  live: boolean,
  resume: (() => void) | null,
): HTMLElement {
  const { level, headline, action, parts } = health;
  const at = parts.findIndex((part) => part.text === headline);
  const speed = speedPartOf(health, verdict);
  const speedIsWorst = speed !== undefined && parts[at]?.topic === speed.topic;
  const others = parts.filter(({ topic }, which) => which !== at && topic !== speed?.topic);
  const row = (part: HealthPart): Child => {
    const next = todo(part.action) ? h('span.muted', ` · ${todo(part.action)}`) : null;
    const text = h('span', runs.localTimes(part.text), next);
    return h(`li.health-part.level-${part.level}`, h('span.health-topic', part.topic), text);
  };
  const first = runs.localTimes(speedIsWorst ? speed.text : headline);
  return h(
    `section.card.health.level-${level}`,
    { 'aria-label': 'Health' },
    h(
      'div.health-head',
      h(
        'div',
        h(`p.health-headline${speedIsWorst ? '.verdict-sentence' : ''}`, { role: 'status' }, first),
        todo(action) ? h('p.health-action', todo(action)) : null,
      ),
      resume && h('button.chip.primary', { onclick: resume }, 'Resume …'),
    ),
    others.length > 0 && h('ul.health-parts', others.map(row)),
    verdict && speedFold(verdict, live, speedIsWorst),
  );
}

const MAX_TESTS = 3;
const KEPT_MS = 7 * 86_400_000; // a deleted run can be restored for this time

const tile = (label: string, value: Child, detail: Child = null, extra: Child = null): HTMLElement =>
  h('div.tile', h('dt', label), h('dd', h('span.value', value), extra, h('span.detail', detail)));

/// Evidence of a verdict that stands for another part of an update.
const STANDS_FOR: Partial<Record<(typeof runs.STEP_PARTS)[number]['key'], readonly string[]>> = {
  exposed_communication_ms: WAITS,
  other_ms: ['evaluation_ms', 'checkpoint_ms', 'other_ms'],
};

const splitOfParts = ({ shares }: Split): HTMLElement =>
  splitBar(
    runs.STEP_PARTS.flatMap(({ key, color }) =>
      (STANDS_FOR[key] ?? [key]).map((each) => [color, shares.get(each) ?? 0] as const),
    ),
  );

function progress(data: RunData, run: Run, nowMs: number): HTMLElement {
  const { fraction, end } = run.progress;
  const done = runs.percentDone(run);
  const detail = joined([
    done && end ? `${done} of ${end}` : done,
    run.epoch !== null && `epoch ${formatFixed(run.epoch, 2)}`,
    runs.isLive(run, data.runAtMs, nowMs) && runs.timeLeftUntil(run, nowMs),
  ]);
  const most = run.max_updates > 0 && h('small', ` / ${formatCount(run.max_updates)}`);
  const bar = fraction !== null && h('progress', { max: 1, value: fraction, 'aria-label': 'Training progress' });
  return tile('Update', [formatCount(run.update), most], detail, bar);
}

/// The smoothed loss, as in the chart's legend, with the loss of the newest update.
function learning({ trend, smoothedLoss }: RunData, run: Run): HTMLElement {
  if (run.emulated) return tile('Training loss', format.DASH, 'emulated: waits instead of computing');
  const validation = run.last_eval
    ? `validation ${formatLoss(run.last_eval.loss)} at ${formatCount(run.last_eval.update)}`
    : 'not validated yet';
  const broken = run.loss === null && run.update > 0;
  const smooth = broken ? null : smoothedLoss;
  const newest = smooth !== run.loss && `newest ${formatLoss(run.loss)}`;
  const detail = joined([broken ? 'not finite' : newest, validation]);
  if (!trend || broken) return tile('Training loss', formatLoss(smooth), detail);
  const way = !trend.certain ? 'flat' : trend.change < 0 ? 'falling' : 'rising';
  const mark = { flat: '→', falling: '↓', rising: '↑' }[way];
  const by = trend.certain ? ` ${format.formatSignificant(Math.abs(trend.change), 2)}` : '';
  return tile('Training loss', [formatLoss(smooth), h(`small.trend.trend-${way}`, ` ${mark} ${way}${by}`)], detail);
}

/// The newest scores on each set other than the validation set.
function tests({ evals }: RunData): HTMLElement[] {
  const newest = runs.otherSets(evals).slice(0, MAX_TESTS);
  return newest.map(({ set, update, sacrebleu, chrf, loss }) => {
    const [name, at] = [runs.setName(set), `at update ${formatCount(update)}`];
    if (sacrebleu === null) return tile(`Loss on ${name}`, formatLoss(loss), at);
    const detail = joined([chrf !== null && `chrF ${formatFixed(chrf, 2)}`, at]);
    return tile(`sacreBLEU on ${name}`, formatFixed(sacrebleu, 2), detail);
  });
}

/// Whether a run trains on generated sequences, which nobody translates.
const hasSequences = ({ config }: Run): boolean => /^task: gssm$/m.test(config ?? '');

/// The best evaluation by BLEU if translations are scored, otherwise by validation loss.
function best(run: Run): HTMLElement {
  const { best: found, last_eval: last } = run;
  const none = run.emulated ? 'never evaluated' : 'not evaluated yet';
  if (!found) return tile(hasSequences(run) ? 'Best validation loss' : 'Best sacreBLEU', format.DASH, none);
  const at = `at update ${formatCount(found.update)}`;
  if (found.sacrebleu === null) {
    const excess = typeof found.excess === 'number' && `excess ${formatLoss(found.excess)} nats`;
    const detail = joined([at, hasSequences(run) ? excess : 'no translation scored']);
    return tile('Best validation loss', formatLoss(found.loss), detail);
  }
  const p = last?.best_before === found.update ? last.p_value : null;
  const chance = typeof p === 'number' && p < 1 ? ` (p = ${formatFixed(p, p < 0.01 ? 3 : 2)})` : '';
  const newest = last?.sacrebleu ? `last ${formatFixed(last.sacrebleu, 2)}${chance}` : '';
  return tile('Best sacreBLEU', formatFixed(found.sacrebleu, 2), joined([at, newest]));
}

function facts(data: RunData, run: Run, nowMs: number): string {
  const ranks = run.world_size > 0 ? `${run.world_size} ${run.world_size === 1 ? 'rank' : 'ranks'}` : '';
  const began = run.update > 0 || run.hosts.length > 0;
  const state = run.finished_at ? 'ran' : began ? 'running for' : 'waiting for';
  const age = runs.ageMs(run.record_age_ms, data.runAtMs, nowMs) / 1000;
  const silent = runs.staleForMs(run, data.runAtMs, nowMs) !== null; // the badge says so, and for how long
  return joined([
    `${ranks}${run.hosts.length > 0 ? ` on ${format.formatNames(run.hosts, 4)}` : ''}`,
    run.parameters > 0 && `${formatSi(run.parameters)} parameters`,
    `${state} ${format.formatDuration(runs.takenSeconds(run, data.runAtMs, nowMs))}`,
    began && !silent && `last record ${format.formatAge(age)}`,
    run.attempt > 1 && `attempt ${run.attempt}`,
  ]);
}

const labelOf = ([name, value]: [string, string]): HTMLElement =>
  name === 'sweep'
    ? h('a.label', { href: hashOfSweep(value) }, `${name}=${value}`)
    : h('span.label', value ? `${name}=${value}` : name);

export function runTitle(data: RunData, nowMs: number): HTMLElement {
  const run = data.run!;
  const gone = run.deleted_at && format.formatDateTime(Date.parse(run.deleted_at) + KEPT_MS);
  return h(
    'div.run-title',
    h('h1', run.name || run.id),
    stateBadge(run, data.runAtMs, nowMs),
    run.emulated && h('span.label', 'emulated'),
    Object.entries(run.labels ?? {}).map(labelOf),
    gone ? h('p.problem', `Deleted: hidden from all lists, removed permanently on ${gone}.`) : null,
    h('p.muted', facts(data, run, nowMs)),
    run.notes ? h('p', run.notes) : null,
  );
}

export function runTiles(data: RunData, nowMs: number): HTMLElement {
  const run = data.run!;
  const split = splitOf(data.verdict);
  const part = (key: string): string => formatPercent(split?.shares.get(key) ?? 0, 0);
  const waits = `network ${part('network_wait_ms')}, other ranks ${part('straggler_wait_ms')}`;
  const detail = split ? `${waits} of a ${formatMs(split.updateMs)} update · ${split.basis}` : 'not measured yet';
  const exposed = split ? formatPercent(split.exposed, 0) : format.DASH;
  return h(
    'dl.tiles',
    progress(data, run, nowMs),
    learning(data, run),
    best(run),
    tests(data),
    tile('Target tokens/s', formatSi(data.series.recentMean('target_tokens_per_second')), 'all ranks, recent mean'),
    tile('Exposed communication', exposed, detail, split && splitOfParts(split)),
  );
}

const TOLD_MS = 8000; // how long the result of an action is shown
const GOING = ['launching', 'running', 'restarting', 'suspended'];
const OVER = ['succeeded', 'failed', 'stopped', 'lost'];
const ACTIONS: readonly [id: ActionId, label: string, states: readonly string[]][] = [
  ['checkpoint', 'Checkpoint now', ['running']],
  ['trace', 'Trace …', ['running']],
  ['stop', 'Stop …', [...GOING, 'queued']],
  ['resume', 'Resume …', OVER],
  ['delete', 'Delete …', OVER],
];

type Decisive = 'profile' | 'emulated' | 'stale_since' | 'deleted_at';

/// The actions available for a run in this state. The server cannot resume a run that was started by hand. Such a run can be
/// deleted while it counts as running if it is silent. An emulated run writes no checkpoints.
export function actionsOf(run: { state: string } & Partial<Pick<Run, Decisive>>): [ActionId, string][] {
  if (run.deleted_at) return [['restore', 'Restore']];
  const byHand = run.profile === 'external';
  const offered = ([id, , states]: (typeof ACTIONS)[number]): unknown =>
    (states.includes(run.state) && !(byHand && id === 'resume') && !(run.emulated && id === 'checkpoint')) ||
    (id === 'delete' && byHand && run.stale_since);
  return ACTIONS.filter(offered).map(([id, label]) => [id, label]);
}

/// Buttons that control the run, each with a confirmation. Shows only those that the token and the run's state allow.
export class RunActions {
  answer = '';
  form: HTMLElement | null = null; // edits name, labels and notes, in the place of the title
  undo: (() => void) | null = null; // takes the newest change back

  /// `changed`: the run is another one now; `told`: the answer is.
  constructor(
    private readonly data: RunData,
    readonly changed: () => void,
    private readonly told: () => void,
  ) {}

  render(): HTMLElement {
    const actions = this.offers().filter(([id]) => !(id === 'resume' && this.resume));
    const button = ([id, label]: [ActionId, string]): HTMLElement =>
      h('button.chip', { onclick: () => void this.act(id) }, label);
    const start = (): unknown => import('./run_ask').then(({ editRun }) => editRun(this.data.id, this));
    const edit = may('operate') && h('button.chip', { onclick: () => void start() }, 'Edit');
    const undo = this.undo && h('button.chip', { onclick: this.undo }, 'Undo');
    return h('div.actions', h('span.group', edit, actions.map(button)), h('span.group', status(this.answer), undo));
  }

  /// Resumes the run after a confirmation; null if that is not offered beside the run's health.
  get resume(): (() => void) | null {
    const { run } = this.data;
    const offered = run && offersResume(run.health) && this.offers().some(([id]) => id === 'resume');
    return offered ? () => void this.act('resume') : null;
  }

  private offers(): [ActionId, string][] {
    return may('operate') && this.data.run ? actionsOf(this.data.run) : [];
  }

  async act(id: ActionId): Promise<void> {
    try {
      const { askAndSend } = await import('./run_ask');
      const done = await askAndSend(id, this.data);
      if (done === null) return;
      this.say(done);
      setTimeout(() => this.answer === done && this.say(''), TOLD_MS);
      this.changed();
    } catch (error) {
      this.say(`Failed: ${explain(error)}`);
    }
  }

  say(text: string): void {
    this.answer = text;
    this.told();
  }
}
