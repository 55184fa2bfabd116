import type { Run } from '../api/types';

/// What a person who is not looking wants to be told of a run.
export interface News {
  run: string;
  title: string;
  text: string;
}

type Watched = Pick<Run, 'id' | 'name' | 'state' | 'detail' | 'stale_since'>;

const BAD = new Set(['failed', 'lost']);

const trouble = (run: Watched): string => (BAD.has(run.state) ? run.state : run.stale_since ? 'silent' : '');

/// Runs that failed, were lost or fell silent since the last look; at the first look nothing is news.
export class RunWatch {
  private before: Map<string, string> | null = null;

  look(runs: readonly Watched[]): News[] {
    const { before } = this;
    const now = new Map(before ?? []);
    const news: News[] = [];
    for (const run of runs) {
      const is = trouble(run);
      now.set(run.id, is);
      if (before === null || is === '' || before.get(run.id) === is) continue;
      const what = is === 'silent' ? 'says nothing any more' : is === 'lost' ? 'was lost' : 'failed';
      news.push({ run: run.id, title: `${run.name || run.id} ${what}`, text: run.detail });
    }
    this.before = now;
    return news;
  }
}
