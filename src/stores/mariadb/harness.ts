/** Opens the store of a cluster for the conformance suite, each time on a database of its own. */
import type { BlobRef } from '../../model/body.ts';
import { Gate, type Harnesses, type HarnessKit } from '../conformance/harness.ts';
import { Opened, type StoreFixture } from '../conformance/opened.ts';
import type { RowRef } from './blobs.ts';
import { MariaDbStore } from './mariadb.ts';
import { connector, type Sql } from './sql.ts';

async function mariadb({ env, database, turns, within }: HarnessKit): Promise<StoreFixture> {
  const connectTo = connector(await database());
  const gate = new Gate();
  const connect = async (): Promise<Sql> => {
    const sql = await connectTo();
    const commit = sql.commit.bind(sql);
    sql.commit = () => gate.pass().then(commit);
    return sql;
  };
  const make = () => new MariaDbStore(env, { connect });
  return {
    make,
    hold: () => gate.hold(),
    // Another store takes the lead, so that every write of this one fails.
    breakWrites: async () => {
      const other = new Opened(make());
      await other.open();
      await other.store.close();
    },
    lost: (ref) => ({ ...ref, file: (ref as RowRef).file + 1000 }) as BlobRef,
    turns,
    within,
    remove: async () => undefined,
  };
}

export const harnesses: Harnesses = { mariadb };
