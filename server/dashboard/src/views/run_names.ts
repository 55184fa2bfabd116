import { getJson } from '../api/client';
import type { Run } from '../api/types';
import { h } from '../lib/dom';
import { hashOfRun } from '../lib/routes';

const AT_ONCE = 50;

/// Names of runs that the server returns by id only. Each name is requested once.
export class RunNames {
  private readonly names = new Map<string, string>();

  async learn(ids: Iterable<string>): Promise<void> {
    const unknown = [...new Set(ids)].filter((id) => !this.names.has(id)).slice(0, AT_ONCE);
    await Promise.all(
      unknown.map(async (id) => {
        this.names.set(
          id,
          await getJson<Run>(`/runs/${id}`).then(
            ({ name }) => name,
            () => '',
          ),
        );
      }),
    );
  }

  link(id: string): HTMLElement {
    return h('a', { href: hashOfRun(id), title: id }, this.names.get(id) || `…${id.slice(-6)}`);
  }
}
