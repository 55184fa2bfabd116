import { getAll } from '../api/client';
import type { NodeItem } from '../api/types';
import { type Child, h } from '../lib/dom';
import * as format from '../lib/format';
import { DASH, formatBytes, formatPercent } from '../lib/format';
import { ageMs } from '../data/runs';
import { ListPage, RunNames } from './list_page';
import { type Page, type Place, table } from './parts';

const HEADS = ['Host', 'Last heartbeat', 'Runs', 'GPUs', '#Processors', '#Load', '#Memory used', '#Disk free'];

/// The distinct runs on a host, with their ranks there.
export function runsOf(node: {
  ranks: Pick<NodeItem['ranks'][number], 'run' | 'rank'>[];
}): { run: string; ranks: number[] }[] {
  const ranksOf = (wanted: string): number[] =>
    node.ranks.flatMap(({ run, rank }) => (run === wanted ? [rank] : [])).sort((a, b) => a - b);
  return [...new Set(node.ranks.map(({ run }) => run))].map((run) => ({ run, ranks: ranksOf(run) }));
}

const gpusOf = ({ ranks }: NodeItem): string =>
  ranks.flatMap(({ gpu }) => (gpu ? [format.formatGpu(gpu)] : [])).join('; ') || DASH;

/// The hosts: heartbeats, runs and load.
export const open = (place: Place): Page =>
  new ListPage(place, () => {
    const names = new RunNames();
    let nodes: NodeItem[] = [];
    let atMs = 0;
    const heard = ({ heartbeat_age_ms, silent }: NodeItem): Child => {
      const age = format.formatAge(ageMs(heartbeat_age_ms, atMs, Date.now()) / 1000);
      return silent ? h('span.state.state-stale', age) : age;
    };
    const runs = (node: NodeItem): Child =>
      runsOf(node).map(({ run, ranks }, at) => [at > 0 && ', ', names.link(run), ` (rank ${ranks.join(', ')})`]);
    const row = (node: NodeItem): Child[] => [
      node.host,
      heard(node),
      node.ranks.length === 0 ? DASH : runs(node),
      gpusOf(node),
      node.processors,
      `${format.formatFixed(node.load, 1)} (${formatPercent(node.load / Math.max(1, node.processors), 0)})`,
      `${formatBytes(node.memory_bytes - node.memory_available_bytes)} of ${formatBytes(node.memory_bytes)}`,
      formatBytes(node.disk_free_bytes),
      format.formatBytesPerSecond(node.network_rx_bytes_per_second),
      format.formatBytesPerSecond(node.network_tx_bytes_per_second),
    ];
    return {
      title: 'Nodes',
      everyMs: 2000,
      above: h('p.muted', 'Hosts with ranks that reported in the last 24 hours.'),
      load: async () => {
        nodes = await getAll<NodeItem>('/nodes');
        atMs = Date.now();
        await names.learn(nodes.flatMap(({ ranks }) => ranks.map(({ run }) => run)));
      },
      inputs: () => [nodes, Math.floor(Date.now() / 1000)],
      render: () => table('Hosts', [...HEADS, '#Received', '#Sent'], nodes.map(row)),
    };
  });
