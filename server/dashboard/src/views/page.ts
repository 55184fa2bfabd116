export type StatusKind = 'loading' | 'live' | 'reconnecting' | 'stale' | 'finished';
export type Status = (kind: StatusKind, text: string) => void;

/// A page that the router shows. `close` ends its timers, streams and listeners.
export interface Page {
  close(): void;
}
