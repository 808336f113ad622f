/** One entry of the catalogue of errors. */

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
