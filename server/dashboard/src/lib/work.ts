/// The life of a page or of a part of one: what it starts ends with it, and nothing of it is drawn after its end.
export class Life {
  private readonly ends: (() => void)[] = [];
  protected over = false;

  /// Calls these at the end, at once if it is over.
  atEnd(...ends: (() => void)[]): void {
    if (this.over) ends.forEach((end) => end());
    else this.ends.push(...ends);
  }

  every(ms: number, work: () => void): void {
    const timer = setInterval(work, ms);
    this.atEnd(() => clearInterval(timer));
  }

  /// A function that calls `work` after `ms`, counted from its last call.
  later(ms: number, work: () => void): () => void {
    let timer: ReturnType<typeof setTimeout> | undefined;
    this.atEnd(() => clearTimeout(timer));
    return this.open(() => {
      clearTimeout(timer);
      timer = setTimeout(work, ms);
    });
  }

  /// A function that calls `work` at most once per animation frame.
  onFrame(work: () => void): () => void {
    let pending = false;
    return () => {
      if (pending) return;
      pending = true;
      requestAnimationFrame(() => {
        pending = false;
        if (!this.over) work();
      });
    };
  }

  /// `work`, which does nothing after the end.
  open<Arguments extends unknown[]>(work: (...given: Arguments) => void): (...given: Arguments) => void {
    return (...given) => {
      if (!this.over) work(...given);
    };
  }

  /// Calls `work` whenever the element comes near the window or leaves it; `margin` says how near, in px.
  whenNear(element: Element, margin: number, work: (near: boolean) => void): void {
    const observer = new IntersectionObserver((entries) => work(entries.some(({ isIntersecting }) => isIntersecting)), {
      rootMargin: `${margin}px 0px`,
    });
    observer.observe(element);
    this.atEnd(() => observer.disconnect());
  }

  close(): void {
    this.over = true;
    this.ends.splice(0).forEach((end) => end());
  }
}

/// Calls `work`, one call at a time. Calls meanwhile are joined to one that follows.
export function oneAtATime(work: () => Promise<void>, failed: (error: unknown) => void): () => void {
  let running = false;
  let again = false;
  const run = async (): Promise<void> => {
    running = true;
    do {
      again = false;
      await work().catch(failed);
    } while (again);
    running = false;
  };
  return () => {
    if (running) again = true;
    else void run();
  };
}

/// Collects requested parts and fetches them in rounds, one at a time. A round starts at least `pauseMs` after the start of the
/// last one and a fifth of that after its end, so that a slow server gets a pause; after a failure, four times as long. Parts
/// requested during a round go into the next one. A failed round is repeated.
export class Refresher<Part> extends Life {
  private due = new Set<Part>();
  private running = false;

  constructor(
    private readonly round: (parts: ReadonlySet<Part>) => Promise<void>,
    private readonly onResult: (failed: boolean) => void,
    private readonly pauseMs: number,
  ) {
    super();
  }

  ask(parts: Iterable<Part>): void {
    for (const part of parts) this.due.add(part);
    if (!this.running) void this.run();
  }

  private async run(): Promise<void> {
    this.running = true;
    while (this.due.size > 0 && !this.over) {
      const beganMs = performance.now();
      const parts = this.due;
      this.due = new Set();
      const again = (): boolean => {
        parts.forEach((part) => this.due.add(part));
        return true;
      };
      const failed = await this.round(parts).then(() => false, again);
      if (!this.over) this.onResult(failed);
      const rest = Math.max(this.pauseMs / 5, beganMs + this.pauseMs - performance.now());
      await new Promise((resolve) => setTimeout(resolve, failed ? 4 * this.pauseMs : rest));
    }
    this.running = false;
  }
}

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
