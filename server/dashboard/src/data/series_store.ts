import { getSeries, type SeriesRange } from '../api/client';
import { rangeOnServer, TokenClock, type XAxis } from '../lib/axes';
import { appendTail, emptySeries, meanOf, nextStep, type Series } from '../lib/series';

const MAX_ROWS = 2400; // a series that live rows extend beyond this is sampled again
const CLOCK_ROWS = 400;
const CLOCK_KEY = 'update_target_tokens';
const RECENT_UPDATES = 50;

/// The shown part of a run: the x axis, and the range in its units; null follows the run.
export type Window = { axis: XAxis; range: readonly [number, number] | null };

/// The series of the mounted charts, sampled for the window. Names are KEY or KEY@RANK.
export class SeriesStore {
  clock = new TokenClock(emptySeries());
  private series = new Map<string, Series>();
  private recentRows = new Map<string, Series>();
  private generation = 0;

  /// `wanted` returns the series needed now; `recent` are those that the summary needs for any window.
  constructor(
    private readonly run: string,
    private readonly wanted: () => ReadonlySet<string>,
    private readonly recent: readonly string[],
  ) {}

  /// Whether the series has been fetched. It may be empty.
  has(name: string): boolean {
    return this.series.has(name);
  }

  get(name: string): Series {
    return this.series.get(name) ?? emptySeries();
  }

  /// The mean over the newest rows, so that a single slow step hardly changes it.
  recentMean(name: string): number | null {
    return meanOf((this.recentRows.get(name)?.avg ?? []).slice(-RECENT_UPDATES));
  }

  /// Reloads all needed series: at first, after a zoom (with finer data), after a restart of the run.
  async load(window: Window, lastStep: number): Promise<void> {
    const generation = ++this.generation;
    if (window.axis.mode === 'tokens') await this.loadClock();
    const loaded = await getSeries(this.run, [...this.wanted()], this.requestRange(window));
    if (generation !== this.generation) return;
    this.series = loaded;
    await this.loadRecent(lastStep);
  }

  /// Loads the needed series, or `names`, that are not loaded yet, for charts that come into view.
  async loadMissing(window: Window, names: Iterable<string> = this.wanted()): Promise<boolean> {
    const generation = this.generation;
    const missing = [...new Set(names)].filter((name) => !this.series.has(name));
    if (missing.length === 0) return false;
    const loaded = await getSeries(this.run, missing, this.requestRange(window));
    if (generation !== this.generation) return false;
    loaded.forEach((series, name) => this.series.set(name, series));
    return true;
  }

  /// Loads rows newer than the loaded ones. A zoomed window is not changed.
  async loadTail(window: Window, lastStep: number): Promise<void> {
    const generation = this.generation;
    if (window.axis.mode === 'tokens' && lastStep > this.clock.lastStep) await this.loadClock();
    if (window.range) return this.loadRecent(lastStep);
    const names = [...this.wanted()].filter((name) => this.series.has(name));
    const newer = await getSeries(this.run, names, { x: 'step', from: nextStep(names.map((name) => this.get(name))) });
    if (generation !== this.generation) return;
    let incomplete = false; // a series that was empty may begin before `from`
    let longest = 0;
    for (const [name, tail] of newer) {
      const before = this.get(name);
      incomplete ||= before.step.length === 0 && tail.step.length > 0;
      const joined = appendTail(before, tail);
      this.series.set(name, joined);
      longest = Math.max(longest, joined.step.length);
    }
    if (incomplete || longest > MAX_ROWS) return this.load(window, lastStep);
    this.takeRecent();
  }

  private async loadClock(): Promise<void> {
    const loaded = await getSeries(this.run, [CLOCK_KEY], { x: 'step', points: CLOCK_ROWS });
    this.clock = new TokenClock(loaded.get(CLOCK_KEY)!);
  }

  private async loadRecent(lastStep: number): Promise<void> {
    const from = Math.max(0, lastStep - RECENT_UPDATES);
    this.recentRows = await getSeries(this.run, this.recent, { x: 'step', from, points: 100 });
  }

  private takeRecent(): void {
    for (const name of this.recent) {
      const series = this.series.get(name);
      if (series) this.recentRows.set(name, series);
    }
  }

  private requestRange(window: Window): SeriesRange {
    return window.range ? rangeOnServer({ ...window.axis, clock: this.clock }, window.range) : { x: 'step' };
  }
}
