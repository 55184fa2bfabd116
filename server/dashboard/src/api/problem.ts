/// The body of an error response: application/problem+json (RFC 9457).
export interface Problem {
  title?: string;
  detail?: string;
  code?: string;
  instance?: string;
  errors?: ProblemPlace[];
}

/// One error in a request's body. `line` and `column` refer to the text of a configuration.
export interface ProblemPlace {
  pointer?: string;
  detail: string;
  line?: number;
  column?: number;
}

/// A failed request, with a one-line explanation. `status` is 0 if there was no response.
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly code = '',
    readonly errors: readonly ProblemPlace[] = [],
    readonly retryAfterMs: number | null = null,
  ) {
    super(message);
  }
}

const MEANINGS: Record<number, string> = {
  401: 'the server requires a token',
  403: 'this token lacks the required scope',
  404: 'not found',
  409: 'not possible in the current state',
  412: 'someone else has changed it in the meantime',
  413: 'too large',
  429: 'too many requests',
  503: 'the server is busy',
  507: "the server's disk is full",
};

/// Parses Retry-After, in seconds or as a date, into ms from `nowMs`; null if absent or malformed.
export function retryAfterMs(header: string | null, nowMs: number): number | null {
  if (header === null) return null;
  if (/^\d+$/.test(header)) return Number(header) * 1000;
  const date = Date.parse(header);
  return Number.isNaN(date) ? null : Math.max(0, date - nowMs);
}

export async function problemOf(response: Response): Promise<ApiError> {
  const problem = (await response.json().catch(() => ({}))) as Problem;
  const message =
    problem.detail || problem.title || MEANINGS[response.status] || `the server answered ${response.status}`;
  return new ApiError(
    response.status,
    message,
    problem.code ?? '',
    problem.errors ?? [],
    retryAfterMs(response.headers.get('Retry-After'), Date.now()),
  );
}

/// A one-line message for any thrown value.
export function explain(error: unknown): string {
  if (error instanceof ApiError) return error.status === 0 ? error.message : `${error.message} (${error.status})`;
  return error instanceof Error ? error.message : String(error);
}
