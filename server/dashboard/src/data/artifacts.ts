import { getJson } from '../api/client';
import type { Artifact } from '../api/types';

/// The artifacts of one kind of a run, with their contents. Keeps the contents, so that each is fetched once.
export class Artifacts<T> {
  private readonly contents = new Map<string, T | null>(); // by id and digest

  /// `read` turns the content, which the server passes on unchecked, into a value; null if it is not one.
  constructor(
    private readonly run: string,
    private readonly kind: Artifact['kind'],
    private readonly read: (content: unknown) => T | null,
  ) {}

  /// The newest artifacts of the kind, newest first.
  async newest(limit: number): Promise<Artifact[]> {
    const path = `/runs/${this.run}/artifacts?kind=${this.kind}&limit=${limit}`;
    const { items } = await getJson<{ items: Artifact[] }>(path);
    await Promise.all(items.filter(({ content_bytes }) => content_bytes > 0).map((item) => this.fetch(item)));
    return items;
  }

  /// Null if the artifact has no content or none that can be read.
  content({ id, sha256 }: Artifact): T | null {
    return this.contents.get(`${id} ${sha256}`) ?? null;
  }

  private async fetch({ id, sha256 }: Artifact): Promise<void> {
    const key = `${id} ${sha256}`;
    if (this.contents.has(key)) return;
    const { content } = await getJson<Artifact>(`/artifacts/${id}`);
    this.contents.set(key, this.read(content));
  }
}
