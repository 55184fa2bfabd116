import type { Run } from '../api/types';

/// A run with its settings: its configuration's leaves, and its labels if a sweep set them.
export type Candidate = { run: Run; settings: ReadonlyMap<string, string> };

const isSeed = (key: string): boolean => /(^|\.)seed$/.test(key);
/// Settings that name a run or a place and change nothing that is learned.
const NAMING = /(^|\.)(name|folder|output|dir|directory|server|token|token_file)$/;

/// The settings that distinguish experiments: also the number of ranks and the program's version.
export function settingsOf(run: Run, config: ReadonlyMap<string, string>): Map<string, string> {
  const all = new Map([...config].filter(([key]) => !NAMING.test(key)));
  for (const [key, value] of Object.entries(run.labels ?? {}))
    if (run.labels?.['sweep'] !== undefined && key !== 'sweep' && key !== 'cell') all.set(key, value);
  all.set('ranks', String(run.world_size));
  if (run.version) all.set('version', run.version);
  return all;
}

/// The keys in which the settings differ, seeds left out, those with the most values first.
export function differingKeys(candidates: readonly Candidate[]): string[] {
  const keys = new Set(candidates.flatMap(({ settings }) => [...settings.keys()]));
  const differs = (key: string): boolean =>
    candidates.some(({ settings }) => settings.get(key) !== candidates[0]!.settings.get(key));
  const values = (key: string): number => new Set(candidates.map(({ settings }) => settings.get(key))).size;
  const found = [...keys].filter((key) => !isSeed(key) && differs(key)).sort();
  const counts = new Map(found.map((key) => [key, values(key)]));
  return found.sort((a, b) => counts.get(b)! - counts.get(a)!);
}

const SHORT: Record<string, string> = { 'optimizer.learning_rate': 'lr' };

/// The last part of a key, or all of it if another key ends alike.
export function shortNames(keys: readonly string[]): Map<string, string> {
  const last = (key: string): string => SHORT[key] ?? key.slice(key.lastIndexOf('.') + 1);
  const counts = new Map<string, number>();
  for (const key of keys) counts.set(last(key), (counts.get(last(key)) ?? 0) + 1);
  return new Map(keys.map((key) => [key, counts.get(last(key)) === 1 ? last(key) : key]));
}

/// Runs of one configuration, which differ in their seeds only. `label` says what differs from the other groups; '' if nothing does.
export type Group = { key: string; label: string; runs: Run[]; values: ReadonlyMap<string, string> };

const seedsOf = ({ settings }: Candidate): string =>
  JSON.stringify([...settings].filter(([key]) => isSeed(key)).sort());

/// Groups runs by what differs, in their order. Runs that agree in everything, their seeds too, stay apart: they are repetitions, which one
/// compares. `fold` false: each run is a group.
export function groupsOf(candidates: readonly Candidate[], fold: boolean): Group[] {
  const keys = differingKeys(candidates);
  const names = shortNames(keys);
  const groups = new Map<string, { members: Candidate[]; seeds: Set<string> }>();
  for (const each of candidates) {
    const values = JSON.stringify(keys.map((key) => each.settings.get(key) ?? null));
    const present = groups.get(values);
    const seeds = seedsOf(each);
    if (present && fold && !present.seeds.has(seeds)) {
      present.members.push(each);
      present.seeds.add(seeds);
    } else groups.set(present ? each.run.id : values, { members: [each], seeds: new Set([seeds]) });
  }
  return [...groups.values()].map(({ members }) => {
    const [first] = members;
    const values = new Map(keys.flatMap((key) => [[key, first!.settings.get(key) ?? '–'] as const]));
    const told = [...values].filter(([, value]) => value !== '–');
    const label = told.map(([key, value]) => `${names.get(key)} ${value}`).join(' · ');
    return { key: members.map(({ run }) => run.id).join(), label, runs: members.map(({ run }) => run), values };
  });
}

/// Mean and standard deviation, null with fewer than two values, of the known values.
export type Stats = { count: number; mean: number | null; spread: number | null };

export function statsOf(values: readonly (number | null | undefined)[]): Stats {
  const known = values.filter((value): value is number => typeof value === 'number' && Number.isFinite(value));
  const count = known.length;
  if (count === 0) return { count, mean: null, spread: null };
  const mean = known.reduce((sum, value) => sum + value, 0) / count;
  const squares = known.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return { count, mean, spread: count > 1 ? Math.sqrt(squares / (count - 1)) : null };
}
