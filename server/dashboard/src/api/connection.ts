/// Whether the server answers, as the requests of the page find out.
export interface Connection {
  awaySinceMs: number | null;  // since when no request was answered; null while they are
  answeredAtMs: number | null; // when the server was last heard; null: never
}

let connection: Connection = { awaySinceMs: null, answeredAtMs: null };
let listener: (connection: Connection) => void = () => undefined;

function change(next: Connection): void {
  const told = next.awaySinceMs !== connection.awaySinceMs;
  connection = next;
  if (told) listener(next);
}

/// Whatever the answer was: there is a server.
export function answered(nowMs = Date.now()): void {
  change({ awaySinceMs: null, answeredAtMs: nowMs });
}

export function unanswered(nowMs = Date.now()): void {
  change({ ...connection, awaySinceMs: connection.awaySinceMs ?? nowMs });
}

/// `work` is called when the server goes away and when it is back.
export function onConnection(work: (connection: Connection) => void): void {
  listener = work;
}
