import type { Run } from '../api/types';
import { nearest } from '../lib/nearest';

/// The settings of a run that its list item lacks; null while they are fetched.
type ConfigOf = (run: Run) => ReadonlyMap<string, string> | null;
type Test = (run: Run, configOf: ConfigOf) => boolean;

/// A parsed search. `problem` says in one line what is wrong with it, '' if nothing is; a wrong one matches every run. `settings`: whether
/// it reads configurations.
export type Filter = { test: Test; problem: string; settings: boolean };

class Wrong extends Error {}

const NUMBERS: Record<string, (run: Run) => number | null | undefined> = {
  bleu: (run) => run.best?.sacrebleu,
  chrf: (run) => run.best?.chrf,
  valid_loss: (run) => run.best?.loss,
  loss: (run) => run.loss,
  update: (run) => run.update,
  epoch: (run) => run.epoch,
  progress: (run) => run.progress.fraction,
  tokens: (run) => run.target_tokens_per_second,
  step_ms: (run) => run.step_ms,
  parameters: (run) => run.parameters,
  ranks: (run) => run.world_size,
  attempt: (run) => run.attempt,
  restarts: (run) => run.restarts,
};
const SECONDS: Record<string, (run: Run) => number | null | undefined> = { ran: (run) => run.elapsed_seconds };
const TIMES: Record<string, (run: Run) => string | null> = {
  created: (run) => run.created_at,
  started: (run) => run.started_at,
  finished: (run) => run.finished_at,
};
const TEXTS: Record<string, (run: Run) => readonly string[]> = {
  name: (run) => [run.name],
  id: (run) => [run.id],
  host: (run) => run.hosts,
  detail: (run) => [run.detail],
  notes: (run) => [run.notes],
  version: (run) => [run.version],
};
const WORDS: Record<string, { value: (run: Run) => string; known: readonly string[] }> = {
  state: {
    value: (run) => run.state,
    known: [
      ...['queued', 'launching', 'running', 'restarting', 'suspended', 'stopping'],
      ...['succeeded', 'failed', 'stopped', 'lost'],
    ],
  },
  health: { value: (run) => run.health.level, known: ['good', 'unknown', 'warning', 'bad'] },
};
/// Short names of settings.
const ALIASES: Record<string, string> = { lr: 'optimizer.learning_rate', seed: 'training.seed' };
const NAMES = [NUMBERS, SECONDS, TIMES, TEXTS, WORDS, ALIASES].flatMap((table) => Object.keys(table)).concat('label');

const SCALES: Record<string, number> = { '': 1, k: 1e3, M: 1e6, G: 1e9, '%': 0.01 };
const UNITS: Record<string, number> = { '': 1, s: 1, min: 60, h: 3600, d: 86_400 };

function scaled(text: string, scales: Record<string, number>): number | null {
  const [, digits = '', unit = ''] = /^(-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*(\D*)$/i.exec(text) ?? [];
  return digits !== '' && Object.hasOwn(scales, unit) ? Number(digits) * scales[unit]! : null;
}

type Operator = '>' | '>=' | '<' | '<=' | '=' | '!=' | ':';
const compared = (left: number, by: Operator, right: number): boolean =>
  ({ '>': left > right, '>=': left >= right, '<': left < right, '<=': left <= right, '!=': left !== right })[
    by as '>'
  ] ?? left === right;

/// The texts after `:` or `=`: commas separate alternatives.
function oneOf(texts: readonly string[], by: Operator, wanted: string): boolean {
  const found = wanted
    .toLowerCase()
    .split(',')
    .some((each) => texts.some((text) => (by === ':' ? text.includes(each) : text === each)));
  return found !== (by === '!=');
}

const hasOrder = (by: Operator): boolean => /[<>]/.test(by);

function ofNumber(
  term: string,
  by: Operator,
  value: string,
  read: (run: Run) => number | null | undefined,
  kind: string,
): Test {
  const wanted =
    kind === 'date' ? Date.parse(value) : (scaled(value, kind === 'duration' ? UNITS : SCALES) ?? Number.NaN);
  const examples = {
    number: 'a number such as 27, 3e-4, 10k or 40%',
    duration: 'a time such as 90s, 5min or 2h',
    date: 'a day such as 2026-11-30',
  };
  if (Number.isNaN(wanted))
    throw new Wrong(`${term}: found ${value || 'nothing'}, expected ${examples[kind as 'date']}`);
  return (run) => {
    const found = read(run);
    return typeof found === 'number' && compared(found, by, wanted);
  };
}

/// A setting by its path, or by its last part: a label's value, else the configuration's.
function ofSetting(name: string, by: Operator, value: string): Test {
  const fits = (key: string): boolean => key === name || key.endsWith(`.${name}`);
  const find = (all: Iterable<readonly [string, string]>): string | undefined =>
    [...all].find(([key]) => fits(key))?.[1];
  return (run, configOf) => {
    const found = find(Object.entries(run.labels ?? {})) ?? find(configOf(run) ?? []);
    if (found === undefined) return by === '!=';
    const [left, right] = [scaled(found, SCALES), scaled(value, SCALES)];
    if (left !== null && right !== null) return compared(left, by, right);
    return !hasOrder(by) && oneOf([found.toLowerCase()], by, value);
  };
}

function ofWord(
  term: string,
  by: Operator,
  value: string,
  { value: read, known }: (typeof WORDS)['state' & string],
): Test {
  for (const each of value.split(',')) {
    if (known.includes(each)) continue;
    const near = nearest(each, known);
    throw new Wrong(`${term}: found ${each || 'nothing'}, expected ${near ? near : `one of ${known.join(', ')}`}`);
  }
  return (run) => oneOf([read(run)], by === ':' ? '=' : by, value);
}

function comparison(term: string, name: string, by: Operator, value: string, labels: ReadonlySet<string>): Test {
  const numeric = (read: (run: Run) => number | null | undefined, kind: string): Test =>
    ofNumber(term, by, value, read, kind);
  if (Object.hasOwn(NUMBERS, name)) return numeric(NUMBERS[name]!, 'number');
  if (Object.hasOwn(SECONDS, name)) return numeric(SECONDS[name]!, 'duration');
  if (Object.hasOwn(TIMES, name)) return numeric((run) => Date.parse(TIMES[name]!(run) ?? ''), 'date');
  if (hasOrder(by) && (name in TEXTS || name in WORDS || name === 'label'))
    throw new Wrong(`${term}: ${name} is a text, expected ${name}:${value || 'TEXT'}`);
  if (Object.hasOwn(WORDS, name)) return ofWord(term, by, value, WORDS[name]!);
  if (Object.hasOwn(TEXTS, name))
    return (run) =>
      oneOf(
        TEXTS[name]!(run).map((text) => text.toLowerCase()),
        by,
        value,
      );
  if (name === 'label') {
    const [key = '', wanted] = value.split('=');
    return (run) => run.labels?.[key] !== undefined && (wanted === undefined || run.labels[key] === wanted);
  }
  const path = ALIASES[name] ?? name;
  const known = path.includes('.') || [...labels].some((key) => key === name || key.endsWith(`.${name}`));
  if (known) return ofSetting(path, by, value);
  const near = nearest(name, [...NAMES, ...labels]);
  const hint = near
    ? `did you mean ${near}`
    : `known are ${NAMES.join(', ')}, labels, and configuration keys with their dots`;
  throw new Wrong(`${term}: nothing is called ${name}; ${hint}. Quote it to search for the text`);
}

/// The text that a word is looked for in.
function searchable(run: Run): string {
  const labels = Object.entries(run.labels ?? {}).map(([key, value]) => `${key}=${value}`);
  return [run.name, run.id, run.state, run.detail, ...run.hosts, ...labels].join(' ').toLowerCase();
}

function termOf(term: string, labels: ReadonlySet<string>): Test {
  const [, minus, quoted, rest = ''] = /^(-?)(?:"([^"]*)"?|(.+))$/.exec(term) ?? [];
  const [, name, by, value = ''] = /^([\w.@-]+?)(>=|<=|!=|>|<|=|:)(.*)$/.exec(rest) ?? [];
  const word = (quoted ?? rest).toLowerCase();
  const test: Test =
    name && by
      ? comparison(term, name, by as Operator, value.replace(/^"|"$/g, ''), labels)
      : (run) => searchable(run).includes(word);
  return minus ? (run, configOf) => !test(run, configOf) : test;
}

/// Parses a search: words that occur in name, id, state, detail, hosts or labels, and comparisons: `lr>3e-4 bleu>27 label:team=mt
/// state:failed,lost -host:alder`. Every term must match. `labels`: the keys of all labels, which are names, too.
export function parseFilter(text: string, labels: ReadonlySet<string> = new Set()): Filter {
  const terms = text.match(/-?"[^"]*"?|[^\s"]+(?:"[^"]*"?)?/g) ?? [];
  try {
    const tests = terms.map((term) => termOf(term, labels));
    const settings = terms.some((term) => /^-?(lr|seed|[\w@-]+\.[\w.@-]+)(>|<|!?=|:)/.test(term));
    return { test: (run, configOf) => tests.every((test) => test(run, configOf)), problem: '', settings };
  } catch (error) {
    if (!(error instanceof Wrong)) throw error;
    return { test: () => true, problem: error.message, settings: false };
  }
}
