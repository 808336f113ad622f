/** Messages between power-main.ts and the test that cuts its power. */
export type PowerOrder =
  | { readonly is: 'load'; readonly cycle: string }
  /** Answered when the jobs have come to rest. */
  | { readonly is: 'settle'; readonly ids: readonly string[] }
  /** The same after a person has ordered another try of each. */
  | { readonly is: 'retry'; readonly ids: readonly string[] };

export type PowerNews =
  | { readonly is: 'open' }
  | { readonly is: 'acked'; readonly id: string }
  | { readonly is: 'at-rest'; readonly states: Readonly<Record<string, string>> };
