import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { WorkerMemory } from './device-memory.ts';
import { type MeasurableWorker, MemoryMeter, type ProbedDevices } from './memory-meter.ts';

const probe = (usedBytes: number, probedAt: number, processes: ProbedDevices['processes'] = []) => ({
  all: [{ id: 0, kind: 'nvidia' as const, name: 'x', totalBytes: 100, freeBytes: 100 - usedBytes }],
  processes,
  probedAt,
});

class FakeWorker implements MeasurableWorker {
  readonly heard: string[] = [];
  readonly memory: WorkerMemory;
  readonly pid = process.pid;

  constructor(workerId: string, usedSince?: number) {
    const fields = { reservedBytes: 1, isOrdered: false, measured: undefined, usedSince };
    this.memory = { workerId, gpu: 0, ...fields };
  }

  measured({ bytes }: { bytes: number }, how: string): void {
    this.heard.push(`${bytes} ${how}`);
  }
}

test('a worker has by how much more is in use after its start, measured once', () => {
  const meter = new MemoryMeter();
  const old = new FakeWorker('old', 1);
  meter.starts('w', 0, [old], probe(30, 10));
  meter.measure([old, new FakeWorker('w')], probe(40, 15));
  const worker = new FakeWorker('w', 20);
  meter.measure([old, worker], probe(45, 19));
  assert.deepEqual(worker.heard, [], 'the probe began before it was ready');
  meter.measure([old, worker], probe(50, 21));
  meter.measure([old, worker], probe(90, 30));
  assert.deepEqual([worker.heard, old.heard], [['20 by difference'], []]);
});

test('the difference says nothing if another worker started, ended or was starting meanwhile', () => {
  const measuredWith = (before: FakeWorker[], after: FakeWorker[], freedAt?: number): string[] => {
    const meter = new MemoryMeter();
    if (freedAt !== undefined) meter.freed(freedAt);
    meter.starts('w', 0, before, probe(30, 10));
    const worker = new FakeWorker('w', 20);
    meter.measure([...after, worker], probe(50, 21));
    return worker.heard;
  };
  const old = new FakeWorker('old', 1);
  assert.deepEqual(measuredWith([old], [old]), ['20 by difference']);
  assert.deepEqual(measuredWith([old], [old, new FakeWorker('new')]), []);
  assert.deepEqual(measuredWith([old], []), []);
  assert.deepEqual(measuredWith([new FakeWorker('old')], [old]), []);
  assert.deepEqual(measuredWith([], [], 11), [], 'the memory of an ended worker was still in use');
});

test('what the driver says of processes comes before the difference, and is measured every time', () => {
  const meter = new MemoryMeter();
  const worker = new FakeWorker('w', 1);
  meter.starts('w', 0, [], probe(0, 0));
  const mine = (usedBytes: number) => [{ pid: process.pid, usedBytes }];
  meter.measure([worker], probe(50, 2, mine(40)));
  meter.measure([worker], probe(50, 3, mine(41)));
  assert.deepEqual(worker.heard, ['40 by process', '41 by process']);
});

test('pids of another numbering are not believed: the difference counts', () => {
  const meter = new MemoryMeter();
  const worker = new FakeWorker('w', 1);
  meter.starts('w', 0, [], probe(10, 0));
  const foreign = { pid: 2 ** 31 - 1, usedBytes: 30 };
  meter.measure([worker], probe(50, 2, [{ pid: process.pid, usedBytes: 5 }, foreign]));
  assert.deepEqual(worker.heard, ['40 by difference']);
});
