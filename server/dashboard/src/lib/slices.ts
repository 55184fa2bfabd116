const BUDGET_MS = 12;

/// Lets the browser handle input and paint before the work continues.
const turn = (): Promise<void> =>
  new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });

/// Runs work in slices, so that the page stays responsive. Items run in the order in which they were first added. Adding an item
/// that is still pending replaces its work and keeps its place, so that none starves.
export class Slices<Key> {
  private readonly due = new Map<Key, () => void>();
  private running = false;

  constructor(
    private readonly give: () => Promise<void> = turn,
    private readonly now: () => number = () => performance.now(),
  ) {}

  add(key: Key, work: () => void): void {
    this.due.set(key, work);
    if (!this.running) void this.run();
  }

  clear(): void {
    this.due.clear();
  }

  private async run(): Promise<void> {
    this.running = true;
    let end = this.now() + BUDGET_MS;
    for (let next = this.due.entries().next(); !next.done; next = this.due.entries().next()) {
      const [key, work] = next.value;
      this.due.delete(key);
      try {
        work();
      } catch (error) {
        reportError(error);
      }
      await Promise.resolve(); // plots draw in a microtask: their time counts
      if (this.now() < end) continue;
      await this.give();
      end = this.now() + BUDGET_MS;
    }
    this.running = false;
  }
}
