/** Messages between a steered executor and the test that started it. */
export type ExecutorOrder =
  | { readonly is: 'say'; readonly job: string; readonly text: string }
  | { readonly is: 'succeed'; readonly job: string }
  | { readonly is: 'fail'; readonly job: string; readonly retriable: boolean }
  /** Ends everything that runs; the executor says when that is done. */
  | { readonly is: 'clear' };

export type ExecutorNews =
  | { readonly is: 'listens'; readonly url: string; readonly registry: string }
  | { readonly is: 'begun'; readonly job: string; readonly payload: unknown }
  | { readonly is: 'cleared' };

export const SLOTS = 2;
