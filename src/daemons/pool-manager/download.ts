/** Downloads one file of the hub. The blob appears under its name only when it is complete, checked and synced. */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { type DiskFile, diskErrorCode, type Env } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import type { Outbound, StreamReply, Target } from '../../wire/outbound.ts';

export interface DownloadOptions {
  readonly env: Env;
  readonly outbound: Outbound;
  readonly endpoint: string;
  readonly redirectHosts: readonly string[];
  readonly registry: string;
}

/** Size and checksum of the file as the response headers announce them. */
interface AnnouncedFile {
  readonly bytes: number | undefined;
  readonly etag: string | undefined;
}

const SHA256 = /^[0-9a-f]{64}$/;
const BLOB_NAME = /^[0-9a-f]{40,64}$/;
/** Larger than any model file. */
const MAX_FILE_BYTES = 2 ** 41;
/** The download is paused while more bytes than this wait to be written. */
const MAX_UNWRITTEN_BYTES = 8 * 2 ** 20;

export class Download {
  readonly #options: DownloadOptions;
  readonly #target: Target;
  #bytes = 0;

  constructor(options: DownloadOptions, target: Target) {
    this.#options = options;
    this.#target = target;
  }

  /** The bytes received so far. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Downloads the file at `path` of the hub into the folder `blobs`; returns the path of the blob. */
  async save(blobs: string, path: string): Promise<string> {
    const { disk } = this.#options.env;
    const { reply, announced, close } = await this.#open(path);
    const temporary = join(blobs, `${announced.etag ?? 'file'}.${this.#options.registry}.incomplete`);
    try {
      const sha256 = await this.#receive(reply, announced, temporary);
      const blob = join(blobs, announced.etag ?? sha256);
      await disk.rename(temporary, blob);
      await disk.syncFolder(blobs);
      return blob;
    } catch (error) {
      await disk.remove(temporary).catch(() => undefined);
      if (diskErrorCode(error) === 'ENOSPC')
        throw new OrchdError('STORE_FULL', 'the disk of the cache is full');
      throw error;
    } finally {
      close();
    }
  }

  async #open(path: string): Promise<{ reply: StreamReply; announced: AnnouncedFile; close: () => void }> {
    const first = await this.#target.stream({ path, returnsRedirects: true });
    const announced = announcedBy(first);
    if (first.status === 200) return { reply: first, announced, close: () => first.close() };
    first.close();
    if (first.status < 300 || first.status >= 400)
      throw refused(`the hub answered ${first.status} for the file`);
    const { target, path: next } = this.#redirectTarget(first.headers.location, path);
    const close = (reply?: StreamReply): void => {
      reply?.close();
      target.close();
    };
    try {
      const second = await target.stream({ path: next });
      if (second.status !== 200) throw refused(`the file was answered with ${second.status}`);
      const bytes = announced.bytes ?? announcedBy(second).bytes;
      return { reply: second, announced: { bytes, etag: announced.etag }, close: () => close(second) };
    } catch (error) {
      close();
      throw error;
    }
  }

  /** Follows one redirect, and only to the endpoint's own host or to a host in `hf_redirect_hosts`. */
  #redirectTarget(location: string | undefined, path: string): { target: Target; path: string } {
    const { endpoint, redirectHosts, outbound } = this.#options;
    const url = location === undefined ? null : URL.parse(location, new URL(path, endpoint));
    if (url === null || !/^https?:$/.test(url.protocol))
      throw refused('the hub sends the download on to nowhere');
    if (url.host !== new URL(endpoint).host && !redirectHosts.includes(url.host)) {
      throw refused(`the hub sends the download on to ${url.host}, which hf_redirect_hosts does not name`);
    }
    return { target: outbound.to(url.origin), path: url.pathname + url.search };
  }

  async #receive(reply: StreamReply, announced: AnnouncedFile, path: string): Promise<string> {
    const file = await this.#options.env.disk.open(path, 'create');
    try {
      const sha256 = await this.#write(reply, file, announced.bytes ?? MAX_FILE_BYTES);
      if (announced.bytes !== undefined && announced.bytes !== this.#bytes) {
        throw unverified(`${this.#bytes} bytes came, ${announced.bytes} were announced`);
      }
      if (announced.etag !== undefined && SHA256.test(announced.etag) && announced.etag !== sha256) {
        throw unverified('its checksum is another one than the hub said');
      }
      await file.datasync();
      return sha256;
    } finally {
      await file.close();
    }
  }

  async #write(reply: StreamReply, file: DiskFile, maxBytes: number): Promise<string> {
    const hash = createHash('sha256');
    let unwritten = 0;
    let failure: unknown;
    let written: Promise<void> = Promise.resolve();
    await reply.read((piece) => {
      if (failure !== undefined) throw failure;
      const at = this.#bytes;
      this.#bytes += piece.length;
      if (this.#bytes > maxBytes) throw unverified('more came than was announced');
      hash.update(piece);
      unwritten += piece.length;
      if (unwritten > MAX_UNWRITTEN_BYTES) reply.pause();
      written = written
        .then(() => file.write(at, piece))
        .catch((error: unknown) => {
          failure ??= error;
        })
        .then(() => {
          unwritten -= piece.length;
          if (unwritten <= MAX_UNWRITTEN_BYTES) reply.resume();
        });
    });
    await written;
    if (failure !== undefined) throw failure;
    return hash.digest('hex');
  }
}

/** The x-linked headers describe the file itself where the response is a redirect or a pointer to it. */
function announcedBy({ headers, status }: StreamReply): AnnouncedFile {
  const size = headers['x-linked-size'] ?? (status === 200 ? headers['content-length'] : undefined);
  const tag = headers['x-linked-etag'] ?? headers.etag;
  const etag = (Array.isArray(tag) ? tag[0] : tag)?.replace(/^W\//, '').replaceAll('"', '');
  const bytes = /^\d{1,15}$/.test(String(size)) ? Number(size) : undefined;
  return { bytes, etag: etag !== undefined && BLOB_NAME.test(etag) ? etag : undefined };
}

const refused = (what: string): OrchdError => new OrchdError('MODEL_NOT_FOUND', what, { reason: 'download' });
const unverified = (what: string): OrchdError =>
  new OrchdError('MODEL_UNVERIFIED', `the file is not whole: ${what}`);
