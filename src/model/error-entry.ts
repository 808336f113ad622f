/** What the catalogue of errors says about a code: the HTTP status, whether to try again, what it means, and what to do. */
export interface CatalogueEntry {
  readonly status: number;
  readonly retriable: boolean;
  readonly meaning: string;
  readonly next: string;
}

export const entry = (status: number, retriable: boolean, meaning: string, next: string): CatalogueEntry => ({
  status,
  retriable,
  meaning,
  next,
});
