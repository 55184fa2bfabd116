import { getJson } from './request';

/// Whose token it is and what it may do.
export interface TokenSelf {
  id: string;
  name: string;
  scope: string;
  run?: string | null;
  expires_at?: string | null;
}

/// What a scope allows, in words.
const RIGHTS: Record<string, string> = {
  read: 'look at everything', ingest: 'report records of a run', operate: 'look, start and stop runs', admin: 'do everything',
};

export const rightsOf = (scope: string): string => RIGHTS[scope] ?? scope;

/// Null where the server works without tokens.
export async function askSelf(): Promise<TokenSelf | null> {
  try {
    return await getJson<TokenSelf>('/tokens/self');
  } catch {
    return null;
  }
}
