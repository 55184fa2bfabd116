import { explain, problemOf } from './problem';
import { authorization, unauthorized } from './session';
import { saveBlob } from '../lib/save';

/// The file name from the server's header, or the last part of the path.
export function fileName(disposition: string | null, path: string): string {
  const given = /filename="([^"]+)"/.exec(disposition ?? '')?.[1];
  return given ?? decodeURIComponent(path.split('?')[0]!.split('/').at(-1)!);
}

async function fetchFile(path: string): Promise<Response> {
  const response = await fetch(path, { headers: authorization() });
  if (response.status === 401) unauthorized();
  if (!response.ok) throw await problemOf(response);
  return response;
}

/// Fetches a file of the API with the token, as text.
export const fetchText = async (path: string): Promise<string> => (await fetchFile(path)).text();

/// Fetches a file of the API with the token and saves it; `name` may be empty. Reports start, end and failure by `say`.
export async function download(path: string, name: string, say: (text: string) => void): Promise<void> {
  say(`downloading ${name || fileName(null, path)}`);
  try {
    const response = await fetchFile(path);
    saveBlob(await response.blob(), name || fileName(response.headers.get('Content-Disposition'), path));
    say('');
  } catch (error) {
    say(`not downloaded: ${explain(error)}`);
  }
}
