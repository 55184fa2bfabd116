import { BASE } from './request';
import { explain, problemOf } from './problem';
import { authorization, hasToken, unauthorized } from './session';

/// Gives the reader a file that the page already holds.
export function saveBlob(blob: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/// The name that the server gives a file, or the last part of its path.
export function fileName(disposition: string | null, path: string): string {
  const given = /filename="([^"]+)"/.exec(disposition ?? '')?.[1];
  return given ?? decodeURIComponent(path.split('?')[0]!.split('/').at(-1)!);
}

async function download(path: string, name: string): Promise<void> {
  const response = await fetch(path, { headers: authorization() });
  if (response.status === 401) unauthorized();
  if (!response.ok) throw await problemOf(response);
  saveBlob(await response.blob(), name || fileName(response.headers.get('Content-Disposition'), path));
}

/// A plain link cannot send a token, so links with `download` to the API are fetched and saved here; without a token they are
/// left to the browser. `say` tells of the start, the end and a failure.
export function watchDownloads(say: (text: string) => void): void {
  document.addEventListener('click', (event) => {
    const link = (event.target as Element | null)?.closest<HTMLAnchorElement>('a[download]');
    const path = link?.getAttribute('href') ?? '';
    if (!link || !hasToken() || !path.startsWith(`${BASE}/`)) return;
    event.preventDefault();
    say(`downloading ${link.download || fileName(null, path)}`);
    download(path, link.download).then(() => say(''), (error: unknown) => say(`not downloaded: ${explain(error)}`));
  });
}
