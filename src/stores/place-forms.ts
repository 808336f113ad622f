/**
 * How a place of each kind of store is written on a command line. Apart from the descriptors, so that the help of
 * `orchd migrate` loads no store.
 */
export interface PlaceForm {
  readonly form: string;
  /** What it names, and what the name of the kind alone stands for. */
  readonly means: string;
}

export const PLACE_FORMS = {
  journal: { form: 'journal:DIR', means: 'a data folder; "journal" alone is that of --data' },
  mariadb: {
    form: 'mariadb://USER@HOST/DB',
    means: 'a database; "mariadb" alone is mariadb.url or ORCHD_MARIADB_URL, which other users cannot see',
  },
} as const satisfies Readonly<Record<string, PlaceForm>>;
