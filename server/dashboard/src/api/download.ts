import { explain, problemOf } from './problem';
import { authorization, unauthorized } from './session';
import { saveBlob } from '../lib/save';

/// The name that the server gives a file, or the last part of its path.
export function fileName(disposition: string | null, path: string): string {
  const given = /filename="([^"]+)"/.exec(disposition ?? '')?.[1];
  return given ?? decodeURIComponent(path.split('?')[0]!.split('/').at(-1)!);
}

/// Fetches a file of the API with the token and saves it; `name` may be empty. `say` tells of the start, the end and a failure.
export async function download(path: string, name: string, say: (text: string) => void): Promise<void> {
  say(`downloading ${name || fileName(null, path)}`);
  try {
    const response = await fetch(path, { headers: authorization() });
    if (response.status === 401) unauthorized();
    if (!response.ok) throw await problemOf(response);
    saveBlob(await response.blob(), name || fileName(response.headers.get('Content-Disposition'), path));
    say('');
  } catch (error) {
    say(`not downloaded: ${explain(error)}`);
  }
}
