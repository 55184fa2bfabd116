import type { Run } from '../api/types';
import { localTimes } from './health';

/// The content of a notification about a run.
export interface News {
  run: string;
  title: string;
  text: string;
}

type Watched = Pick<Run, 'id' | 'name' | 'state' | 'detail' | 'stale_since' | 'restarts'> & {
  health: Pick<Run['health'], 'headline'>;
};

const BAD = new Set(['failed', 'lost']);

const faultOf = (run: Watched): string => (BAD.has(run.state) ? run.state : run.stale_since ? 'silent' : '');

/// Finds runs that failed, were lost, stopped reporting or were started again after a fault since the last call. The first call returns nothing.
export class RunWatch {
  private before: Map<string, string> | null = null;
  private readonly restarts = new Map<string, number>(); // of each run that was seen

  look(runs: readonly Watched[]): News[] {
    const { before } = this;
    const now = new Map(before ?? []);
    const news: News[] = [];
    for (const run of runs) {
      const is = faultOf(run);
      now.set(run.id, is);
      const { id, restarts } = run;
      const restarted = this.before !== null && (restarts ?? 0) > (this.restarts.get(id) ?? 0);
      this.restarts.set(id, restarts ?? 0);
      if (restarted)
        news.push({
          run: id,
          title: `${run.name || id} was restarted after a fault`,
          text: localTimes(run.health.headline),
        });
      if (before === null || is === '' || before.get(run.id) === is) continue;
      const event = is === 'silent' ? 'stopped reporting' : is === 'lost' ? 'was lost' : 'failed';
      news.push({ run: run.id, title: `${run.name || run.id} ${event}`, text: run.detail });
    }
    this.before = now;
    return news;
  }
}
