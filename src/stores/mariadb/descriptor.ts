/** The store of a cluster, as the rest of the program knows it. */
import type { ResolvedConfig } from '../../config/resolve.ts';
import { OrchdError } from '../../model/errors.ts';
import type { StoreDescriptor } from '../descriptor.ts';
import { PLACE_FORMS } from '../place-forms.ts';
import { MariaDbLeadership } from './leadership.ts';
import { MariaDbStore } from './mariadb.ts';
import { connectTo, labelOf, tablesPlace } from './migration/place.ts';
import { connector } from './sql.ts';
import { migrate } from './tables.ts';

export const mariadb: StoreDescriptor = {
  title: 'MariaDB',
  checkSettings: (config) => void urlOf(config),
  open: ({ env, config, term }) => {
    const { auditMs, auditBytes } = config.retention;
    const { unsafe } = config.store;
    return new MariaDbStore(env, {
      connect: connector(urlOf(config)),
      unsafe,
      auditMs,
      auditBytes,
      ...(term && { term }),
    });
  },
  leadership: (env, config) =>
    new MariaDbLeadership(env, {
      url: urlOf(config),
      unsafe: config.store.unsafe,
      ttlMs: config.cluster.leaseMs,
    }),
  migration: {
    form: PLACE_FORMS.mariadb.form,
    place: (text, { config }) => {
      if (text !== 'mariadb' && !text.startsWith('mariadb://')) return undefined;
      const url = text === 'mariadb' ? config.store.url.reveal() : text;
      if (url === '')
        throw new OrchdError(
          'INVALID_PARAMS',
          '"mariadb" needs an address: set mariadb.url or ORCHD_MARIADB_URL.',
        );
      if (!URL.canParse(url)) {
        throw new OrchdError('INVALID_PARAMS', 'the address of the database is no URL.');
      }
      return tablesPlace({
        connect: connector(url),
        label: labelOf(new URL(url)),
        unsafe: config.store.unsafe,
      });
    },
  },
  upgrade: async (config) => {
    const url = urlOf(config);
    const sql = await connectTo({ connect: connector(url), label: labelOf(new URL(url)) });
    return migrate(sql).finally(() => sql.close());
  },
};

function urlOf({ store }: ResolvedConfig): string {
  const url = store.url.reveal();
  if (url !== '') return url;
  throw new OrchdError('CONFIG_INVALID', 'the store "mariadb" needs its address: set mariadb.url');
}
