/**
 * Large bodies, written in pieces that every server accepts: a statement that is larger than `max_allowed_packet` ends
 * the connection.
 */
import { crc32 } from 'node:zlib';
import type { BlobOwner } from '../../core/ports/store.ts';
import type { BlobRef, Body } from '../../model/body.ts';
import { OrchdError } from '../../model/errors.ts';
import type { Sql } from './sql.ts';

/** `file` is the row of the body; `offset` is always 0. */
export interface RowRef extends BlobRef {
  readonly file: number;
  readonly offset: 0;
  readonly crc: number;
}

/** The id of the row that holds a body; null where the body is inside its record. */
export const rowOf = (body: Body | undefined): number | null =>
  typeof body === 'object' ? (body as RowRef).file : null;

/** Well below max_allowed_packet, which is 16 MiB by default and may be set to 4 MiB on a small server. */
const PIECE_BYTES = 2 ** 20;

const PUT = 'INSERT INTO orchestrator_blobs (body, owner) VALUES (?, ?)';
const PUT_PART = 'INSERT INTO orchestrator_blob_parts (blob_id, part, body) VALUES (?, ?, ?)';
const GET = 'SELECT body FROM orchestrator_blobs WHERE id = ?';
const GET_PART = 'SELECT body FROM orchestrator_blob_parts WHERE blob_id = ? AND part = ?';

const NAME_JOB = 'UPDATE orchestrator_blobs SET uid = ? WHERE id = ?';

/** A job and the row of a body that it names. */
export type BodyName = readonly [uid: string, row: number];

/** The bodies that a job names: of its payload and of its result, where they are rows. */
export function bodiesOf(uid: string, ...bodies: readonly (Body | undefined)[]): BodyName[] {
  const names: BodyName[] = [];
  for (const body of bodies) {
    const row = rowOf(body);
    if (row !== null) names.push([uid, row]);
  }
  return names;
}

/** Writes to bodies which job names them; in the transaction that writes the job, or retention may remove them. */
export const nameBodies = (sql: Sql, names: readonly BodyName[]): Promise<void> => sql.batch(NAME_JOB, names);

/** The text of the column `owner`: retention.ts looks for the job or the session. */
const ownerText = (owner: BlobOwner): string =>
  'job' in owner ? `job:${owner.job}` : `session:${owner.session}`;

/** No job names a new body. Where the answer is lost the body is put again; retention removes what no job names. */
export async function putBlob(sql: Sql, text: string, owner?: BlobOwner): Promise<RowRef> {
  const bytes = Buffer.from(text);
  const { id } = await sql.run(PUT, [bytes.subarray(0, PIECE_BYTES), owner ? ownerText(owner) : null]);
  for (let part = 1; part * PIECE_BYTES < bytes.length; part++) {
    const piece = bytes.subarray(part * PIECE_BYTES, (part + 1) * PIECE_BYTES);
    await sql.run(PUT_PART, [id, part, piece]);
  }
  return { file: id, offset: 0, bytes: bytes.length, crc: crc32(bytes) };
}

export async function readBlob(sql: Sql, blob: BlobRef): Promise<Buffer> {
  const ref = blob as RowRef;
  const pieces: Buffer[] = [];
  const add = async (rows: Promise<{ body: Buffer }[]>): Promise<void> => {
    for (const { body } of await rows) pieces.push(body);
  };
  await add(sql.query(GET, [ref.file]));
  for (let part = 1; part * PIECE_BYTES < ref.bytes; part++) await add(sql.query(GET_PART, [ref.file, part]));
  const bytes = Buffer.concat(pieces);
  if (bytes.length !== ref.bytes || crc32(bytes) !== ref.crc) {
    throw new OrchdError('STORE_CORRUPT', 'a body is missing, or is not the one that was written');
  }
  return bytes;
}

export async function dropBlobs(sql: Sql, ids: readonly number[]): Promise<void> {
  const rows = ids.map((id) => [id]);
  await sql.batch('DELETE FROM orchestrator_blob_parts WHERE blob_id = ?', rows);
  await sql.batch('DELETE FROM orchestrator_blobs WHERE id = ?', rows);
}
