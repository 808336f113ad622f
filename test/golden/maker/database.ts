/** Writes all tables of a database as SQL text, and fills an empty database from such a text. */
import { type Connect, connector, type Sql } from '../../../src/stores/mariadb/sql.ts';
import { START, type StillWorld } from './still-world.ts';

/** Connections whose calls the world waits for, and for whose server time stands still too. */
export function stillConnect(url: string, world: StillWorld): Connect {
  const connect = connector(url);
  const counted = async <T>(call: () => Promise<T>): Promise<T> => {
    world.callsUnderWay++;
    try {
      return await call();
    } finally {
      world.callsUnderWay--;
    }
  };
  return () =>
    counted(async () => {
      const sql = await connect();
      await sql.run(`SET timestamp = ${START / 1000}`);
      return {
        query: (text, values) => counted(() => sql.query(text, values)),
        run: (text, values) => counted(() => sql.run(text, values)),
        batch: (text, rows) => counted(() => sql.batch(text, rows)),
        begin: () => counted(() => sql.begin()),
        commit: () => counted(() => sql.commit()),
        rollback: () => counted(() => sql.rollback()),
        close: () => counted(() => sql.close()),
        destroy: () => sql.destroy(),
        onLost: (listener) => sql.onLost(listener),
      };
    });
}

interface Column {
  readonly name: string;
  readonly type: string;
  readonly isKey: number;
}

const COLUMNS = `SELECT COLUMN_NAME AS name, DATA_TYPE AS type, COLUMN_KEY = 'PRI' AS isKey
  FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION`;

/** A column as a literal of SQL. Bodies are text, whatever the type of their column. */
function literalOf({ name, type }: Column): string {
  if (type.endsWith('int')) return `COALESCE(${name}, 'NULL')`;
  return type === 'binary' ? `CONCAT('0x', HEX(${name}))` : `QUOTE(CONVERT(${name} USING utf8mb4))`;
}

async function dumpTable(sql: Sql, table: string): Promise<string> {
  const [made] = await sql.query<Record<string, string>>(`SHOW CREATE TABLE ${table}`);
  const create = (made?.['Create Table'] ?? '').replace(/ AUTO_INCREMENT=\d+/, '');
  const columns = await sql.query<Column>(COLUMNS, [table]);
  const keys = columns.filter(({ isKey }) => isKey === 1).map(({ name }) => name);
  const rows = await sql.query<{ text: string }>(
    `SELECT CONCAT_WS(', ', ${columns.map(literalOf).join(', ')}) AS text FROM ${table} ORDER BY ${keys.join(', ')}`,
  );
  const names = columns.map(({ name }) => name).join(', ');
  const values = rows.map(({ text }) => `(${text})`).join(',\n');
  return rows.length === 0
    ? `${create};\n`
    : `${create};\nINSERT INTO ${table} (${names}) VALUES\n${values};\n`;
}

export async function dumpDatabase(url: string): Promise<string> {
  const sql = await connector(url)();
  try {
    const tables = await sql.query<{ name: string }>(
      "SELECT TABLE_NAME AS name FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_TYPE = 'BASE TABLE' ORDER BY TABLE_NAME",
    );
    const texts: string[] = [];
    for (const { name } of tables) texts.push(await dumpTable(sql, name));
    return texts.join('\n');
  } finally {
    await sql.close();
  }
}

/** No text in a dump holds a line break, so that one after a semicolon ends a statement. */
export async function loadDatabase(url: string, dump: string): Promise<void> {
  const sql = await connector(url)();
  try {
    for (const statement of dump.split(/;\n+/)) if (statement !== '') await sql.run(statement);
  } finally {
    await sql.close();
  }
}
