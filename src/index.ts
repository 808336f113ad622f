/** The library: what an embedding program uses. */

export type { Tool, ToolContext, ToolEffect } from './agents/tools/tool.ts';
export { createOrchestrator, type OrchestratorOptions } from './app/library.ts';
export type { Wait, WaitedState, WaitRequest } from './backends/local/function-wait.ts';
export type { FunctionBackendOptions, FunctionContext, JobFunction } from './backends/local/functions.ts';
export type { Backend, BackendListener, BackendSource } from './core/ports/backend.ts';
export { RealDisk } from './kit/env/real-disk.ts';
export { ERRORS, type ErrorCode, type ErrorInfo, OrchdError } from './model/errors.ts';
export type { AttemptView, JobPage, JobView, Submitted } from './model/http/jobs.ts';
export type { JobState } from './model/states.ts';
export type { ListRequest, ResolveRequest, SubmitRequest } from './model/submit.ts';
export type { JobEnd } from './runtime/job-ends.ts';
export type { JobEvent } from './runtime/job-events.ts';
export type { Orchestrator } from './runtime/orchestrator.ts';
export type { Caller } from './runtime/prepare.ts';
export type { Reads } from './runtime/reads.ts';
export { examine, salvage } from './stores/journal/doctor/doctor.ts';
