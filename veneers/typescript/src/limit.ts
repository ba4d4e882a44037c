// Times that end by a signal.

/** The longest time of a timer, in milliseconds: a longer one would be over at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** Calls a function after a time, or after 24 days if that is longer. */
export const later = (ms: number, run: () => void): ReturnType<typeof setTimeout> =>
  setTimeout(run, Math.min(ms, TIMER_MS_MAX));

/** A signal that fires after a time, or with another one, until it is let go. */
export interface Limit {
  readonly signal: AbortSignal;
  /** Lets the timer and the other signal go. */
  done(): void;
}

/** Makes a signal that fires after this time with this text, or with the other signal. */
export function limit(ms: number, text: string, other: AbortSignal | undefined): Limit {
  const controller = new AbortController();
  const abort = (): void => {
    controller.abort(other?.reason);
  };
  const timer = later(ms, () => {
    controller.abort(new Error(text));
  });
  if (other?.aborted) abort();
  else other?.addEventListener("abort", abort, { once: true });
  return {
    signal: controller.signal,
    done() {
      clearTimeout(timer);
      other?.removeEventListener("abort", abort);
    },
  };
}

/** Waits for a time, or until the signal fires. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const over = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", over);
      resolve();
    };
    const timer = setTimeout(over, ms);
    signal.addEventListener("abort", over);
    if (signal.aborted) over();
  });
}
