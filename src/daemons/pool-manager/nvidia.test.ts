import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { parseNvidia, parseNvidiaProcesses } from './nvidia.ts';

const MIB = 2 ** 20;

test('devices are listed with their memory, in the order of their ids', () => {
  const output = '1, NVIDIA H200, 143771, 3, 142000\r\n0, NVIDIA A100, PCIe, 81920, 1024, 80000\n\n';
  assert.deepEqual(parseNvidia(output), [
    { id: 0, kind: 'nvidia', name: 'NVIDIA A100, PCIe', totalBytes: 81920 * MIB, freeBytes: 80000 * MIB },
    { id: 1, kind: 'nvidia', name: 'NVIDIA H200', totalBytes: 143771 * MIB, freeBytes: 142000 * MIB },
  ]);
});

test('a device whose memory cannot be read is listed with a fault', () => {
  for (const output of ['[N/A]', 'ERR!', '[Unknown Error]', '[GPU is lost]', '-5', '1e9', '']) {
    const [device] = parseNvidia(`0, NVIDIA T4, ${output}, ${output}, ${output}`);
    assert.match(device?.fault ?? '', /its memory is reported as/);
    assert.equal(device?.freeBytes, 0);
  }
  const [half] = parseNvidia('0, NVIDIA T4, 15360, [N/A], [N/A]');
  assert.ok(half?.fault);
  const [known] = parseNvidia('0, NVIDIA T4, 15360, 360, [N/A]');
  assert.equal(known?.freeBytes, 15000 * MIB);
});

test('lines that are not about a device are skipped, and any text can be parsed', () => {
  const noise =
    'Failed to initialize NVML: Driver/library version mismatch\nNo devices were found\n,,,,\n99999,a,1,1,1';
  assert.deepEqual(parseNvidia(noise), []);
  assert.equal(parseNvidia('0, a, 10, 1, 9\n0, b, 10, 1, 9').length, 1);
  assert.equal(
    parseNvidia(Array.from({ length: 500 }, (_, at) => `${at}, a, 10, 1, 9`).join('\n')).length,
    64,
  );
  fc.assert(
    fc.property(fc.array(fc.oneof(fc.string(), fc.constantFrom('0', '1', '[N/A]', '12'))), (cells) => {
      for (const { totalBytes, freeBytes } of parseNvidia(cells.join(','))) {
        assert.ok(totalBytes >= 0 && (freeBytes ?? 0) >= 0 && (freeBytes ?? 0) <= totalBytes);
      }
    }),
  );
});

test('processes are listed with their memory; lines that do not say it are skipped', () => {
  const output =
    '4242, 13500\r\n77, [N/A]\n[Insufficient Permissions], 5\n0, NVIDIA A, 10, 1, 9\n4242, 500\n\n';
  assert.deepEqual(parseNvidiaProcesses(output), [
    { pid: 4242, usedBytes: 13500 * MIB },
    { pid: 4242, usedBytes: 500 * MIB },
  ]);
});
