/// Whether the server answers, as observed by the page's requests.
export interface Connection {
  awaySinceMs: number | null; // time of the first unanswered request; null while requests are answered
  answeredAtMs: number | null; // time of the last response; null: never
}

let connection: Connection = { awaySinceMs: null, answeredAtMs: null };
let listener: (connection: Connection) => void = () => undefined;

function change(next: Connection): void {
  const told = next.awaySinceMs !== connection.awaySinceMs;
  connection = next;
  if (told) listener(next);
}

/// Records a response of any status.
export function answered(nowMs = Date.now()): void {
  change({ awaySinceMs: null, answeredAtMs: nowMs });
}

export function unanswered(nowMs = Date.now()): void {
  change({ ...connection, awaySinceMs: connection.awaySinceMs ?? nowMs });
}

/// Calls `work` when the connection is lost and when it is back.
export function onConnection(work: (connection: Connection) => void): void {
  listener = work;
}
