import { fileOf, sumsOf } from '../api/client';
import type { RunData } from '../data/run_data';
import { h, type Child } from '../lib/dom';
import { ageMs } from '../lib/freshness';
import { formatAge, formatBytes, formatClock, formatCount, formatFixed, formatMs, formatPercent, formatSi, formatSignificant } from '../lib/format';

/// A table that scrolls sideways inside its own box; columns named with a leading # are numbers.
export function table(label: string, heads: readonly string[], rows: readonly (readonly Child[])[]): HTMLElement {
  const kind = heads.map((head) => (head.startsWith('#') ? 'number' : null));
  return h('div', { class: 'table-box', tabindex: 0, role: 'region', 'aria-label': label }, h('table', {},
    h('thead', {}, h('tr', {}, heads.map((head, at) => h('th', { scope: 'col', class: kind[at]! }, head.replace('#', ''))))),
    h('tbody', {}, rows.length > 0
      ? rows.map((row) => h('tr', {}, row.map((cell, at) => h('td', { class: kind[at]! }, cell))))
      : h('tr', {}, h('td', { colspan: heads.length, class: 'muted' }, 'none yet')))));
}

export function ranksTable(data: RunData, nowMs: number): HTMLElement {
  return table('Ranks', ['#Rank', 'Host', '#Pid', 'Device', '#Update', 'Last record', '#Step', '#Exposed', '#Tokens/s', '#Busy'],
    data.ranks.map((rank) => [rank.rank, rank.host, rank.pid, rank.device, formatCount(rank.update),
      formatAge(ageMs(rank.record_age_ms, data.ranksAtMs, nowMs) / 1000), formatMs(rank.step_ms), formatMs(rank.exposed_communication_ms),
      formatSi(rank.target_tokens_per_second), formatPercent(rank.busy_fraction, 0)]));
}

export function checkpointsTable(data: RunData): HTMLElement {
  return table('Checkpoints', ['#Update', '#sacreBLEU', '#Loss', 'File', '#Size', 'SHA-256'],
    data.checkpoints.flatMap((checkpoint) => checkpoint.files.map((file, index) => [
      index === 0 ? [formatCount(checkpoint.update), checkpoint.best ? h('span', { class: 'best' }, 'best') : null] : '',
      index === 0 ? formatFixed(checkpoint.sacrebleu, 2) : '', index === 0 ? formatSignificant(checkpoint.loss) : '',
      h('a', { href: fileOf(checkpoint.id, file.name), download: file.name }, file.name), formatBytes(file.size),
      [h('code', { title: file.sha256 }, file.sha256.slice(0, 12)), index === 0
        ? [' ', h('a', { href: sumsOf(checkpoint.id), download: 'SHA256SUMS' }, 'sums')] : null]])));
}

export function evalsTable(data: RunData): HTMLElement {
  return table('Evaluations', ['#Update', 'Set', '#sacreBLEU', '#chrF', '#Loss', '#Accuracy', '#Seconds'],
    [...data.evals].reverse().map((row) => [[formatCount(row.update), row.id === data.run?.best?.id ? h('span', { class: 'best' }, 'best') : null],
      row.set, formatFixed(row.sacrebleu, 2), formatFixed(row.chrf, 2), formatSignificant(row.loss), formatPercent(row.accuracy),
      formatFixed(row.seconds, 1)]));
}

export function logTail(data: RunData): HTMLElement {
  return h('div', { class: 'log', tabindex: 0, role: 'log', 'aria-label': 'Log', 'aria-live': 'off' }, data.logs.length > 0
    ? data.logs.map((line) => h('div', { class: `log-line log-${line.level}` }, h('time', {}, formatClock(Date.parse(line.time))),
      h('span', { class: 'log-rank' }, `rank ${line.rank}`), h('span', {}, line.text)))
    : h('p', { class: 'muted' }, 'nothing logged yet'));
}
