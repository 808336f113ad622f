/**
 * Stands where the orchestrator would in the routes of a node that does not lead. Such a node answers /health, /ready,
 * /leader, /metrics and /openapi.json by itself, and these read nothing but what is below; every other request is
 * forwarded to the leader (api/cluster.ts).
 */
import type { ModuleDirectory } from '../api/modules.ts';
import { OrchdError } from '../model/errors.ts';
import { JOB_STATES, type JobState } from '../model/states.ts';
import type { Figures } from '../runtime/figures.ts';
import type { Orchestrator } from '../runtime/orchestrator.ts';
import type { Reads } from '../runtime/reads.ts';

const NOTHING: Figures = {
  jobs: Object.fromEntries(JOB_STATES.map((state) => [state, 0])) as Record<JobState, number>,
  ready: { interactive: 0, batch: 0 },
  sticky: 0,
  backends: [],
  workers: [],
  pools: [],
  money: { reserved: 0, parked: 0, pausedSeats: 0, budgets: [] },
  streams: [],
  workerPools: [],
  leases: { active: 0, freeDevices: 0 },
};

/** What the routes of a node without a brain read. */
type StandbyReads = Pick<Reads, 'full' | 'paused' | 'epoch' | 'isDiverged' | 'missingBlobFiles' | 'figures'>;

const READS: StandbyReads = {
  full: false,
  paused: false,
  epoch: undefined,
  isDiverged: false,
  missingBlobFiles: 0,
  figures: () => NOTHING,
};

export const STANDBY = {
  running: false,
  failure: undefined,
  following: { followers: 0 },
  reads: READS,
} as unknown as Orchestrator;

/** Only the leader runs modules. */
export const NO_MODULES: ModuleDirectory = {
  views: () => [],
  scanNow: () => {
    throw new OrchdError('NO_LEADER');
  },
};
