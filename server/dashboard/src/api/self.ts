import { request } from './request';
import type { TokenSelf } from './types';

/// Descriptions of the scopes.
const RIGHTS: Record<string, string> = {
  read: 'read everything',
  ingest: 'report records of a run',
  operate: 'read, start and stop runs',
  admin: 'do everything',
};

export const rightsOf = (scope: string): string => RIGHTS[scope] ?? scope;

const PATIENCE_MS = 10_000;

/// Asks the server about this tab's token; null if it does not answer. Not aborted when a page closes, since it runs while the first one opens.
export async function askSelf(): Promise<TokenSelf | null> {
  try {
    return (await (await request('/tokens/self', { signal: AbortSignal.timeout(PATIENCE_MS) })).json()) as TokenSelf;
  } catch {
    return null;
  }
}
