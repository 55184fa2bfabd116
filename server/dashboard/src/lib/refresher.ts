/// Collects requested parts and fetches them in rounds, one at a time. A round starts at least `pauseMs` after the start of the
/// last one and a fifth of that after its end, so that a slow server gets a pause; after a failure, four times as long. Parts
/// requested during a round go into the next one. A failed round is repeated.
export class Refresher<Part> {
  private due = new Set<Part>();
  private running = false;
  private closed = false;

  constructor(
    private readonly round: (parts: ReadonlySet<Part>) => Promise<void>,
    private readonly onResult: (failed: boolean) => void,
    private readonly pauseMs: number,
  ) {}

  ask(parts: Iterable<Part>): void {
    for (const part of parts) this.due.add(part);
    if (!this.running) void this.run();
  }

  close(): void {
    this.closed = true;
  }

  private async run(): Promise<void> {
    this.running = true;
    while (this.due.size > 0 && !this.closed) {
      const beganMs = performance.now();
      const parts = this.due;
      this.due = new Set();
      let failed = false;
      try {
        await this.round(parts);
      } catch {
        failed = true;
        for (const part of parts) this.due.add(part);
      }
      if (!this.closed) this.onResult(failed);
      await new Promise((resolve) =>
        setTimeout(
          resolve,
          failed ? 4 * this.pauseMs : Math.max(this.pauseMs / 5, beganMs + this.pauseMs - performance.now()),
        ),
      );
    }
    this.running = false;
  }
}
