/** The public exports of `orchd/ai-sdk`. The package `ai` must be installed beside it. */
export { type OrchdOptions, type OrchdProvider, orchd } from './provider.ts';
export type { CallSettings, JobOptions } from './request.ts';
