/** Connections whose every call goes through a hook that knows its name and decides when it happens. */
import { type Connect, connector, type Sql } from '../../src/stores/mariadb/sql.ts';
import type { Around, Operation } from './watched-disk.ts';

export function watchedConnect(url: string, around: Around): Connect {
  const connect = connector(url);
  return async () => watched(await around(operation('connect'), connect), around);
}

function watched(sql: Sql, around: Around): Sql {
  const commit: Operation = { ...operation('commit'), tear: () => halfWay(sql.commit()) };
  return {
    query: (text, values) => around(operation(nameOf(text)), () => sql.query(text, values)),
    run: (text, values) => around(operation(nameOf(text)), () => sql.run(text, values)),
    // Nothing is sent for no rows.
    batch: (text, rows) =>
      rows.length === 0 ? Promise.resolve() : around(operation(nameOf(text)), () => sql.batch(text, rows)),
    begin: () => around(operation('begin'), () => sql.begin()),
    commit: () => around(commit, () => sql.commit()),
    rollback: () => around(operation('rollback'), () => sql.rollback()),
    close: () => around(operation('hang up'), () => sql.close()),
    destroy: () => sql.destroy(),
    onLost: (listener) => sql.onLost(listener),
  };
}

/** Sends a statement to the server without waiting for its answer. */
async function halfWay(asked: Promise<void>): Promise<void> {
  asked.catch(() => undefined);
}

/** Names a statement by its verb and its table. */
function nameOf(text: string): string {
  const verb = /^\s*(\w+)/.exec(text)?.[1] ?? '';
  const table = /orchestrator_\w+/.exec(text)?.[0];
  return table === undefined ? text.slice(0, 40) : `${verb} ${table}`;
}

const operation = (name: string): Operation => ({ name: `sql ${name}`, kind: 'sql', path: name });
