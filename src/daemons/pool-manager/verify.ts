/** Compares a model file with its registered SHA-256 checksum and with an Ed25519 signature of that checksum. */
import { createHash, createPublicKey, verify } from 'node:crypto';
import type { Disk } from '../../kit/env/env.ts';
import { OrchdError } from '../../model/errors.ts';
import type { VerifyModel, VerifyResult } from '../../model/pool-wire.ts';

/** Read and hashed at a time: takes a few milliseconds, so that the event loop is not blocked for long. */
const PIECE_BYTES = 2 ** 20;

/** Hashes the whole file; throws CANCELLED when `isWanted` returns false. */
export async function hashFile(
  disk: Disk,
  path: string,
  onProgress: (bytes: number, total: number) => void,
  isWanted: () => boolean,
): Promise<{ readonly sha256: string; readonly bytes: number }> {
  const file = await disk.open(path, 'read');
  try {
    const total = await file.size();
    const hash = createHash('sha256');
    let bytes = 0;
    while (bytes < total) {
      if (!isWanted()) throw new OrchdError('CANCELLED', 'nobody waits for it any more');
      const piece = await file.read(bytes, Math.min(PIECE_BYTES, total - bytes));
      if (piece.length === 0) break;
      hash.update(piece);
      bytes += piece.length;
      onProgress(bytes, total);
    }
    return { sha256: hash.digest('hex'), bytes };
  } finally {
    await file.close();
  }
}

/** Throws where a signature comes without its key, or a key without its signature. */
export function checkSignatureFields({ signature, public_key }: VerifyModel): void {
  if ((signature === undefined) === (public_key === undefined)) return;
  const field = signature === undefined ? 'signature' : 'public_key';
  throw new OrchdError('INVALID_PARAMS', '"signature" and "public_key" come together', { field });
}

export function verdictOf(sha256: string, bytes: number, request: VerifyModel): VerifyResult {
  const { sha256: expected, signature, public_key } = request;
  return {
    sha256,
    size_bytes: bytes,
    checksum: expected === undefined ? 'none' : expected === sha256 ? 'pass' : 'fail',
    signature:
      signature === undefined || public_key === undefined
        ? 'none'
        : isSigned(sha256, signature, public_key)
          ? 'pass'
          : 'fail',
  };
}

function isSigned(sha256: string, signature: string, publicKey: string): boolean {
  try {
    const x = Buffer.from(publicKey, 'base64').toString('base64url');
    const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
    return verify(null, Buffer.from(sha256, 'hex'), key, Buffer.from(signature, 'base64'));
  } catch {
    // The key is not a point of the curve, or the signature is malformed.
    return false;
  }
}
