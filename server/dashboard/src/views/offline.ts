import { onConnection, type Connection } from '../api/connection';
import { setText } from '../lib/dom';
import { formatClock } from '../lib/format';

const PATIENCE_MS = 3000; // a single lost request is not reported

/// "No connection to the server since 09:21:05, showing data until 09:21:02. Retrying …"
export function offlineText({ awaySinceMs, answeredAtMs }: Connection): string {
  if (awaySinceMs === null) return '';
  const until = answeredAtMs === null ? '' : `, showing data until ${formatClock(answeredAtMs)}`;
  return `No connection to the server since ${formatClock(awaySinceMs)}${until}. Retrying …`;
}

/// Shows a banner while the server does not answer, with the time of the newest data.
export function watchConnection(banner: HTMLElement): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  onConnection((connection) => {
    clearTimeout(timer);
    if (connection.awaySinceMs === null) setText(banner, '');
    else timer = setTimeout(() => setText(banner, offlineText(connection)), PATIENCE_MS);
  });
}
